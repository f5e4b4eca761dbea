// Vector primitives of the coordinate sweep.
//
// Each is an ordinary function over raw pointers so that the compiler can emit one clone per x86-64 level and pick
// one at load time: wheels run everywhere and still use AVX2 / AVX-512. Sums run in a fixed number of independent
// accumulators: that needs no -ffast-math and fixes the order of summation for every vector width.
#pragma once
#include <cmath>
#include <cstddef>

#if defined(SMALLER_SIMD_CLONES) && defined(__x86_64__) && defined(__gnu_linux__) && defined(__GLIBC__) && defined(__GNUC__)
#define SMALLER_CLONES __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#else
#define SMALLER_CLONES
#endif

#ifdef __GNUC__
#define SMALLER_PREFETCH(address) __builtin_prefetch(address)
#define SMALLER_INLINED __attribute__((always_inline))
#define SMALLER_INLINE inline SMALLER_INLINED  // into every clone of its callers
#else
#define SMALLER_PREFETCH(address)
#define SMALLER_INLINED
#define SMALLER_INLINE inline
#endif

namespace smaller {

constexpr std::size_t LANES = 32, SHORT = 8;
constexpr std::size_t ABREAST = 4;  // columns at a time that share a factor

// A few numbers at a time, for inner loops that must keep their sums in registers.
#ifdef __GNUC__
typedef double Four __attribute__((vector_size(32), aligned(8), may_alias));
typedef float FourFloats __attribute__((vector_size(16), aligned(4), may_alias));
typedef float EightFloats __attribute__((vector_size(32), aligned(4), may_alias));
SMALLER_INLINE Four four(const double *x) { return *reinterpret_cast<const Four *>(x); }
SMALLER_INLINE Four four(const float *x) {
    return __builtin_convertvector(*reinterpret_cast<const FourFloats *>(x), Four);
}
SMALLER_INLINE EightFloats eight(const float *x) { return *reinterpret_cast<const EightFloats *>(x); }
SMALLER_INLINE void put(const Four &v, double *x) { *reinterpret_cast<Four *>(x) = v; }
#else
template <class T, std::size_t N>
struct Lanes {
    T lane[N];
    T operator[](std::size_t l) const { return lane[l]; }
    Lanes &operator+=(const Lanes &b) {
        for (std::size_t l = 0; l < N; ++l) lane[l] += b.lane[l];
        return *this;
    }
    friend Lanes operator+(Lanes a, const Lanes &b) { return a += b; }
    friend Lanes operator*(Lanes a, const Lanes &b) {
        for (std::size_t l = 0; l < N; ++l) a.lane[l] *= b.lane[l];
        return a;
    }
    friend Lanes operator*(Lanes a, T b) {
        for (std::size_t l = 0; l < N; ++l) a.lane[l] *= b;
        return a;
    }
};
using Four = Lanes<double, 4>;
using EightFloats = Lanes<float, 8>;
template <class T>
inline Four four(const T *x) {
    return {{double(x[0]), double(x[1]), double(x[2]), double(x[3])}};
}
inline EightFloats eight(const float *x) { return {{x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7]}}; }
inline void put(const Four &v, double *x) {
    for (std::size_t l = 0; l < 4; ++l) x[l] = v.lane[l];
}
#endif
SMALLER_INLINE double total(const Four &v) { return (v[0] + v[2]) + (v[1] + v[3]); }
SMALLER_INLINE float total(const EightFloats &v) {
    return ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7]));
}

struct Moments {
    double square;  // sum h (x - center)^2
    double linear;  // sum h (x - center)
};

// Adds the lanes up, half of them to the other half; spelt out, so that they stay in registers.
inline double total(const double (&lane)[LANES]) {
    double sixteen[16], eight[8], four[4];
    for (std::size_t l = 0; l < 16; ++l) sixteen[l] = lane[l] + lane[l + 16];
    for (std::size_t l = 0; l < 8; ++l) eight[l] = sixteen[l] + sixteen[l + 8];
    for (std::size_t l = 0; l < 4; ++l) four[l] = eight[l] + eight[l + 4];
    return (four[0] + four[2]) + (four[1] + four[3]);
}

#define SMALLER_PRIMITIVES(T)                                                                                   \
    /* sum x r */                                                                                               \
    SMALLER_CLONES inline double dot(const T *x, const double *r, std::size_t n) {                              \
        Four sum[4] = {};                                                                                       \
        std::size_t i = 0;                                                                                      \
        for (; i + 16 <= n; i += 16)                                                                            \
            for (std::size_t l = 0; l < 4; ++l) sum[l] += four(x + i + 4 * l) * four(r + i + 4 * l);            \
        for (; i + 4 <= n; i += 4) sum[0] += four(x + i) * four(r + i);                                         \
        double rest = 0.0;                                                                                      \
        for (; i < n; ++i) rest += double(x[i]) * r[i];                                                         \
        return rest + (total(sum[0]) + total(sum[1])) + (total(sum[2]) + total(sum[3]));                        \
    }                                                                                                           \
    /* r += step h x, z += step x */                                                                            \
    SMALLER_CLONES inline void advance(const T *x, const double *h, double step, double *r, double *z,          \
                                       std::size_t n) {                                                         \
        _Pragma("omp simd") for (std::size_t i = 0; i < n; ++i) {                                               \
            const double move = step * double(x[i]);                                                            \
            r[i] += h[i] * move;                                                                                \
            z[i] += move;                                                                                       \
        }                                                                                                       \
    }                                                                                                           \
    /* the same, and then sum next r */                                                                         \
    SMALLER_CLONES inline double advance_dot(const T *x, const double *h, double step, double *r, double *z,    \
                                             const T *next, std::size_t n) {                                    \
        Four sum[4] = {};                                                                                       \
        std::size_t i = 0;                                                                                      \
        const auto four_rows = [&](std::size_t at, Four &into) SMALLER_INLINED {                                \
            const Four move = four(x + at) * step, moved = four(r + at) + four(h + at) * move;                  \
            put(moved, r + at);                                                                                 \
            put(four(z + at) + move, z + at);                                                                   \
            into += four(next + at) * moved;                                                                    \
        };                                                                                                      \
        for (; i + 16 <= n; i += 16)                                                                            \
            for (std::size_t l = 0; l < 4; ++l) four_rows(i + 4 * l, sum[l]);                                   \
        for (; i + 4 <= n; i += 4) four_rows(i, sum[0]);                                                        \
        double rest = 0.0;                                                                                      \
        for (; i < n; ++i) {                                                                                    \
            const double move = step * double(x[i]);                                                            \
            r[i] += h[i] * move;                                                                                \
            z[i] += move;                                                                                       \
            rest += double(next[i]) * r[i];                                                                     \
        }                                                                                                       \
        return rest + (total(sum[0]) + total(sum[1])) + (total(sum[2]) + total(sum[3]));                        \
    }                                                                                                           \
    /* z += step x */                                                                                           \
    SMALLER_CLONES inline void axpy(const T *x, double step, double *z, std::size_t n) {                        \
        _Pragma("omp simd") for (std::size_t i = 0; i < n; ++i) z[i] += step * double(x[i]);                    \
    }                                                                                                           \
    /* sums about a center */                                                                                    \
    SMALLER_CLONES inline Moments moments(const T *x, const double *h, double center, std::size_t n) {          \
        double square[LANES] = {0.0}, linear[LANES] = {0.0};                                                    \
        std::size_t i = 0;                                                                                      \
        for (; i + LANES <= n; i += LANES)                                                                      \
            for (std::size_t l = 0; l < LANES; ++l) {                                                           \
                const double a = double(x[i + l]) - center, ha = h[i + l] * a;                                  \
                linear[l] += ha;                                                                                \
                square[l] += ha * a;                                                                            \
            }                                                                                                   \
        for (; i + SHORT <= n; i += SHORT)                                                                      \
            for (std::size_t l = 0; l < SHORT; ++l) {                                                           \
                const double a = double(x[i + l]) - center, ha = h[i + l] * a;                                  \
                linear[l] += ha;                                                                                \
                square[l] += ha * a;                                                                            \
            }                                                                                                   \
        Moments rest{0.0, 0.0};                                                                                 \
        for (; i < n; ++i) {                                                                                    \
            const double a = double(x[i]) - center, ha = h[i] * a;                                              \
            rest.linear += ha;                                                                                  \
            rest.square += ha * a;                                                                              \
        }                                                                                                       \
        return {rest.square + total(square), rest.linear + total(linear)};                                      \
    }

SMALLER_PRIMITIVES(float)
SMALLER_PRIMITIVES(double)
#undef SMALLER_PRIMITIVES

SMALLER_CLONES inline bool any_above(const double *g, const double *slope, double factor, std::size_t n) {
    std::size_t count = 0;
    _Pragma("omp simd reduction(+ : count)") for (std::size_t i = 0; i < n; ++i) {
        const double size = g[i] < 0.0 ? -g[i] : g[i];
        count += size > factor * slope[i] ? 1 : 0;
    }
    return count > 0;
}

// Calls f(i) for every i with |g| > factor slope.
template <class F>
inline void each_above(const double *g, const double *slope, double factor, std::size_t n, F &&f) {
    constexpr std::size_t BLOCK = 64;
    for (std::size_t i = 0; i < n; i += BLOCK) {
        const std::size_t end = i + BLOCK < n ? i + BLOCK : n;
        if (any_above(g + i, slope + i, factor, end - i))
            for (std::size_t j = i; j < end; ++j)
                if (std::fabs(g[j]) > factor * slope[j]) f(j);
    }
}

// The largest |g| - slope among zero weights, and the largest |g| inverse among all; zero if there is none above it.
struct Peaks {
    double excess, ratio;
};
SMALLER_CLONES inline Peaks peaks(const double *g, const double *w, const double *slope, const double *inverse,
                                  double strength, std::size_t n) {
    double excess[LANES] = {0.0}, ratio[LANES] = {0.0};
    std::size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (std::size_t l = 0; l < LANES; ++l) {
            const double size = g[i + l] < 0.0 ? -g[i + l] : g[i + l];
            const double over = w[i + l] == 0.0 ? size - strength * slope[i + l] : 0.0, part = size * inverse[i + l];
            excess[l] = over > excess[l] ? over : excess[l];
            ratio[l] = part > ratio[l] ? part : ratio[l];
        }
    Peaks peak{0.0, 0.0};
    for (; i < n; ++i) {
        const double size = g[i] < 0.0 ? -g[i] : g[i];
        const double over = w[i] == 0.0 ? size - strength * slope[i] : 0.0, part = size * inverse[i];
        peak.excess = over > peak.excess ? over : peak.excess;
        peak.ratio = part > peak.ratio ? part : peak.ratio;
    }
    for (std::size_t l = 0; l < LANES; ++l) {
        peak.excess = excess[l] > peak.excess ? excess[l] : peak.excess;
        peak.ratio = ratio[l] > peak.ratio ? ratio[l] : peak.ratio;
    }
    return peak;
}

// The curvature h = d - u^2 of one output and the residual r = d delta - u s of the model; returns their sums.
struct Sums {
    double r, h;
};
SMALLER_CLONES inline Sums open_output(const double *d, const double *u, const double *s, const double *delta,
                                       double *h, double *r, std::size_t n) {
    double sum_r[LANES] = {0.0}, sum_h[LANES] = {0.0};
    std::size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (std::size_t l = 0; l < LANES; ++l) {
            const double a = u ? u[i + l] : 0.0, b = u ? s[i + l] : 0.0;
            h[i + l] = d[i + l] - a * a;
            r[i + l] = d[i + l] * delta[i + l] - a * b;
            sum_h[l] += h[i + l];
            sum_r[l] += r[i + l];
        }
    Sums rest{0.0, 0.0};
    for (; i < n; ++i) {
        const double a = u ? u[i] : 0.0, b = u ? s[i] : 0.0;
        h[i] = d[i] - a * a;
        r[i] = d[i] * delta[i] - a * b;
        rest.h += h[i];
        rest.r += r[i];
    }
    return {rest.r + total(sum_r), rest.h + total(sum_h)};
}

// delta += z + shift, and s accordingly.
SMALLER_CLONES inline void close_output(const double *z, double shift, const double *u, double *delta, double *s,
                                        std::size_t n) {
    if (u) {
#pragma omp simd
        for (std::size_t i = 0; i < n; ++i) s[i] += u[i] * (z[i] + shift);
    }
#pragma omp simd
    for (std::size_t i = 0; i < n; ++i) delta[i] += z[i] + shift;
}

}  // namespace smaller
