// Softmax rows: exponentials a vector at a time, chunk after chunk of rows that stay in the first cache.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "simd.hpp"

namespace smaller {

// exp(x) for x <= 0, to about one unit in the last place; below -708 it stays at exp(-708), which is nothing beside the
// largest term of a softmax. No branches and no calls, so that a loop over it becomes vector instructions.
SMALLER_INLINE double exp_of_negative(double x) {
    constexpr double PER_LOG2 = 1.4426950408889634, LOG2_HIGH = 6.93147180369123816490e-01,
                     LOG2_LOW = 1.90821492927058770002e-10, ROUND = 6755399441055744.0;  // 1.5 * 2^52
    x = x < -708.0 ? -708.0 : x;
    const double shifted = x * PER_LOG2 + ROUND;  // its last bits are the nearest integer k
    const double k = shifted - ROUND, r = (x - k * LOG2_HIGH) - k * LOG2_LOW;
    // Taylor's series up to r^13, |r| <= log(2) / 2
    double sum = 1.0 / 6227020800.0;
    sum = sum * r + 1.0 / 479001600.0;
    sum = sum * r + 1.0 / 39916800.0;
    sum = sum * r + 1.0 / 3628800.0;
    sum = sum * r + 1.0 / 362880.0;
    sum = sum * r + 1.0 / 40320.0;
    sum = sum * r + 1.0 / 5040.0;
    sum = sum * r + 1.0 / 720.0;
    sum = sum * r + 1.0 / 120.0;
    sum = sum * r + 1.0 / 24.0;
    sum = sum * r + 1.0 / 6.0;
    sum = sum * r + 0.5;
    sum = sum * r + 1.0;
    sum = sum * r + 1.0;
    std::uint64_t bits;
    std::memcpy(&bits, &shifted, sizeof bits);
    bits = (bits + 1023) << 52;  // 2^k
    double power;
    std::memcpy(&power, &bits, sizeof power);
    return sum * power;
}

// An array (q, n) of which every output is contiguous.
template <class T>
struct Outputs {
    T *data;
    std::size_t stride;

    T *operator[](std::size_t k) const { return data + k * stride; }
    Outputs from(std::size_t i) const { return {data + i, stride}; }
};

constexpr std::size_t CHUNK = 256;

struct RowSums {
    double largest[CHUNK], total[CHUNK];  // of eta; of exp(eta - largest)
};

// P = softmax(eta) for up to CHUNK rows; `pinned` adds an output that is always zero.
SMALLER_CLONES inline void probabilities(Outputs<const double> eta, Outputs<double> P, std::size_t rows, std::size_t q,
                                         bool pinned, RowSums &sums) {
    double *largest = sums.largest, *total = sums.total;
    for (std::size_t i = 0; i < rows; ++i) largest[i] = pinned ? 0.0 : eta[0][i];
    for (std::size_t k = 0; k < q; ++k) {
        const double *in = eta[k];
        _Pragma("omp simd") for (std::size_t i = 0; i < rows; ++i) largest[i] = in[i] > largest[i] ? in[i] : largest[i];
    }
    _Pragma("omp simd") for (std::size_t i = 0; i < rows; ++i) total[i] = pinned ? exp_of_negative(-largest[i]) : 0.0;
    for (std::size_t k = 0; k < q; ++k) {
        const double *in = eta[k];
        double *out = P[k];
        _Pragma("omp simd") for (std::size_t i = 0; i < rows; ++i) {
            const double e = exp_of_negative(in[i] - largest[i]);
            out[i] = e;
            total[i] += e;
        }
    }
    double inverse[CHUNK];
    _Pragma("omp simd") for (std::size_t i = 0; i < rows; ++i) inverse[i] = 1.0 / total[i];
    for (std::size_t k = 0; k < q; ++k) {
        double *out = P[k];
        _Pragma("omp simd") for (std::size_t i = 0; i < rows; ++i) out[i] *= inverse[i];
    }
}

// Softmax rows; `pinned` adds an output that is always zero (two classes, reference coding).
struct Softmax {
    Outputs<const double> y;  // (q, n) targets
    const double *c;          // (n) weights, or null for ones
    std::size_t n, q;
    bool pinned;

    // Returns the loss at eta (q, n) and fills the probabilities P (q, n).
    double evaluate(Outputs<const double> eta, Outputs<double> P) const {
        double loss = 0.0;
        for (std::size_t i = 0; i < n; i += CHUNK) {
            const std::size_t rows = std::min(CHUNK, n - i);
            RowSums sums;
            probabilities(eta.from(i), P.from(i), rows, q, pinned, sums);
            for (std::size_t k = 0; k < q; ++k) along(eta.from(i)[k], y.from(i)[k], sums.largest, rows);
            loss += c ? weighted(sums, c + i, rows) : unweighted(sums, rows);
        }
        return loss;
    }

    // The loss's gradient in eta, from the probabilities.
    void differentiate(Outputs<const double> P, Outputs<double> residual) const {
        for (std::size_t k = 0; k < q; ++k)
            for (std::size_t i = 0; i < n; ++i) residual[k][i] = (c ? c[i] : 1.0) * (P[k][i] - y[k][i]);
    }

  private:
    static void along(const double *eta, const double *y, double *largest, std::size_t rows) {
        for (std::size_t i = 0; i < rows; ++i) largest[i] -= y[i] * eta[i];
    }
    static double weighted(const RowSums &sums, const double *c, std::size_t rows) {
        double loss = 0.0;
        for (std::size_t i = 0; i < rows; ++i) loss += c[i] * (sums.largest[i] + std::log(sums.total[i]));
        return loss;
    }
    // Totals lie between 1 and the number of classes: the logarithm of a product of a few serves them all.
    static double unweighted(const RowSums &sums, std::size_t rows) {
        constexpr std::size_t FEW = 16;
        double loss = 0.0;
        for (std::size_t i = 0; i < rows; i += FEW) {
            double product = 1.0, rest = 0.0;
            for (std::size_t j = i; j < std::min(i + FEW, rows); ++j) {
                product *= sums.total[j];
                rest += sums.largest[j];
            }
            loss += rest + std::log(product);
        }
        return loss;
    }
};

}  // namespace smaller
