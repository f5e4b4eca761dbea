// The gradient over all columns, exact where that matters: near the slope.
//
// A small problem's path reads all columns once a strength, and most of them lie far below the slope. Single precision
// says so in half the time; how far it can be wrong is known, and what it leaves in doubt is computed in double.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "columns.hpp"
#include "simd.hpp"

namespace smaller {

// G (q, columns) = R X for columns of n numbers, n a multiple of 8; columns are a multiple of ABREAST.
SMALLER_CLONES inline void single_products(const float *X, std::size_t n, std::size_t columns, const float *R,
                                           std::size_t q, float *G) {
    for (std::size_t j = 0; j < columns; j += ABREAST)
        for (std::size_t k = 0; k < q; ++k) {
            EightFloats sum[ABREAST] = {};
            for (std::size_t i = 0; i < n; i += 8) {
                const EightFloats r = eight(R + k * n + i);
                for (std::size_t p = 0; p < ABREAST; ++p) sum[p] += eight(X + (j + p) * n + i) * r;
            }
            for (std::size_t p = 0; p < ABREAST; ++p) G[k * columns + j + p] = total(sum[p]);
        }
}

// Whether |g| is certainly below level * slope if it may be wrong by `error`; not so where anything is infinite.
SMALLER_INLINE bool certain(float g, double error, double level, double slope) {
    const double size = g < 0.0f ? -double(g) : double(g);
    return size + error < level * slope;
}

// Copies g to G; returns whether all of them are certain, each with an error of error * norm.
SMALLER_CLONES inline bool widen(const float *g, const double *norm, const double *slope, double error, double level,
                                 std::size_t n, double *G) {
    std::size_t count = 0;
    _Pragma("omp simd reduction(+ : count)") for (std::size_t i = 0; i < n; ++i) {
        G[i] = double(g[i]);
        count += certain(g[i], error * norm[i], level, slope[i]) ? 1 : 0;
    }
    return count == n;
}

// G (q, d) = R X.
template <class Columns>
void products(const Columns &X, std::size_t d, const double *R, std::size_t q, double *G) {
    for (std::size_t k = 0; k < q; ++k)
        for (std::size_t j = 0; j < d; ++j) G[k * d + j] = X.dot(std::int64_t(j), R + k * X.rows);
}

// Any columns: all of them exactly.
template <class Columns>
class Screen {
  public:
    Screen(const Columns &X, std::size_t d) : X(X), d(d) {}

    // Fills G (q, d) = R X, to the last digit wherever |G_j| is not certainly below level * slope_j.
    void fill(const double *R, std::size_t q, const double *, double, double *G) { products(X, d, R, q, G); }

  private:
    const Columns X;
    const std::size_t d;
};

template <>
class Screen<Dense<double>> {
  public:
    Screen(const Dense<double> &X, std::size_t d)
        : X(X), d(d), rows((X.rows + 7) / 8 * 8), columns((d + ABREAST - 1) / ABREAST * ABREAST) {
        if (rows * columns > MOST) return;
        copy.resize(rows * columns);
        norm.resize(d);
        for (std::size_t j = 0; j < d; ++j) {
            const double *x = X.at(std::int64_t(j));
            norm[j] = to_single(x, copy.data() + j * rows);
        }
    }

    void fill(const double *R, std::size_t q, const double *slope, double level, double *G) {
        constexpr std::size_t BLOCK = 64;
        if (copy.empty()) return products(X, d, R, q, G);
        single.assign(q * rows, 0.0f);
        found.resize(q * columns);
        length.resize(q);
        for (std::size_t k = 0; k < q; ++k) length[k] = to_single(R + k * X.rows, single.data() + k * rows);
        single_products(copy.data(), rows, columns, single.data(), q, found.data());
        for (std::size_t k = 0; k < q; ++k) {
            const double error = ROUNDING * double(rows / 8 + 8) * length[k];  // of sums in eight lanes
            const float *g = found.data() + k * columns;
            for (std::size_t i = 0; i < d; i += BLOCK) {
                const std::size_t end = std::min(i + BLOCK, d);
                if (widen(g + i, norm.data() + i, slope + i, error, level, end - i, G + k * d + i)) continue;
                for (std::size_t j = i; j < end; ++j)
                    if (!certain(g[j], error * norm[j], level, slope[j]))
                        G[k * d + j] = X.dot(std::int64_t(j), R + k * X.rows);
            }
        }
    }

  private:
    static constexpr double ROUNDING = 6e-8;
    static constexpr std::size_t MOST = 1 << 24;  // numbers in the copy: memory stays that of the data
    const Dense<double> X;
    const std::size_t d, rows, columns;
    std::vector<float> copy, single, found;
    std::vector<double> norm, length;  // of the columns, of the residuals

    // Fills the copy of n numbers and returns their length; infinity, and no copy, where single precision might
    // over- or underflow: then nothing is certain.
    double to_single(const double *x, float *out) const {
        const double size = std::sqrt(dot(x, x, X.rows));
        if (size != 0.0 && !(size > 1e-15 && size < 1e15)) return std::numeric_limits<double>::infinity();
        for (std::size_t i = 0; i < X.rows; ++i) out[i] = float(x[i]);
        return size;
    }
};

}  // namespace smaller
