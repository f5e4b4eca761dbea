// Vector primitives of the coordinate sweep.
//
// Each is an ordinary function over raw pointers so that the compiler can emit one clone per x86-64 level and pick
// one at load time: wheels run everywhere and still use AVX2 / AVX-512. Sums run in LANES independent
// accumulators: that needs no -ffast-math and fixes the order of summation for every vector width.
#pragma once
#include <cstddef>

#if defined(SMALLER_SIMD_CLONES) && defined(__x86_64__) && defined(__gnu_linux__) && defined(__GLIBC__) && defined(__GNUC__)
#define SMALLER_CLONES __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#else
#define SMALLER_CLONES
#endif

namespace smaller {

constexpr std::size_t LANES = 32;

struct Moments {
    double square;  // sum h (x - center)^2
    double linear;  // sum h (x - center)
};

#define SMALLER_PRIMITIVES(T)                                                                                   \
    /* sum x r */                                                                                               \
    SMALLER_CLONES inline double dot(const T *x, const double *r, std::size_t n) {                              \
        double lane[LANES] = {0.0};                                                                             \
        std::size_t i = 0;                                                                                      \
        for (; i + LANES <= n; i += LANES)                                                                      \
            for (std::size_t l = 0; l < LANES; ++l) lane[l] += double(x[i + l]) * r[i + l];                     \
        double sum = 0.0;                                                                                       \
        for (; i < n; ++i) sum += double(x[i]) * r[i];                                                          \
        for (std::size_t l = 0; l < LANES; ++l) sum += lane[l];                                                 \
        return sum;                                                                                             \
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
        Moments sum{0.0, 0.0};                                                                                  \
        for (; i < n; ++i) {                                                                                    \
            const double a = double(x[i]) - center, ha = h[i] * a;                                              \
            sum.linear += ha;                                                                                   \
            sum.square += ha * a;                                                                               \
        }                                                                                                       \
        for (std::size_t l = 0; l < LANES; ++l) {                                                               \
            sum.linear += linear[l];                                                                            \
            sum.square += square[l];                                                                            \
        }                                                                                                       \
        return sum;                                                                                             \
    }

SMALLER_PRIMITIVES(float)
SMALLER_PRIMITIVES(double)
#undef SMALLER_PRIMITIVES

// q += step a
SMALLER_CLONES inline void axpy(const double *a, double step, double *q, std::size_t n) {
#pragma omp simd
    for (std::size_t i = 0; i < n; ++i) q[i] += step * a[i];
}

}  // namespace smaller
