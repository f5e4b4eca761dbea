// One pass over the rows of dense columns: eta moves, the softmax follows, and out comes the gradient.
//
// With few outputs the products X dw and X' R are too thin for BLAS, and the second would fetch again what the first has
// just had. Here a chunk of rows is read once and stays in the cache until it has served both.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <system_error>
#include <thread>
#include <vector>

#include "columns.hpp"
#include "simd.hpp"
#include "softmax.hpp"

namespace smaller {

constexpr std::size_t TILE = 5;                 // outputs at a time
constexpr std::size_t GROUP = 8;                // columns at a time in X dw; ABREAST in X' R
constexpr std::size_t CHUNK_BYTES = 3 << 17;    // of X: less than the second cache
constexpr std::size_t FEWEST_ROWS = CHUNK;      // in a chunk, however many columns there are

// out_k += sum_j w_jk x_j over GROUP columns and Q outputs. The columns that follow are fetched meanwhile: runs as short
// as these end before the hardware has noticed them.
template <std::size_t Q, class T>
SMALLER_INLINE void add_columns(const T *const *x, const T *const *following, const double *w, std::size_t q,
                                Outputs<double> out, std::size_t rows) {
    std::size_t i = 0;
    for (; i + 4 <= rows; i += 4) {
        Four a[GROUP];
        for (std::size_t j = 0; j < GROUP; ++j) {
            a[j] = four(x[j] + i);
            SMALLER_PREFETCH(following[j] + i);
        }
        for (std::size_t k = 0; k < Q; ++k) {
            Four sum = four(out[k] + i);
            for (std::size_t j = 0; j < GROUP; ++j) sum += a[j] * w[j * q + k];
            put(sum, out[k] + i);
        }
    }
    for (; i < rows; ++i)
        for (std::size_t k = 0; k < Q; ++k)
            for (std::size_t j = 0; j < GROUP; ++j) out[k][i] += w[j * q + k] * double(x[j][i]);
}

// g_jk += sum_i x_ij r_ik over ABREAST columns and Q outputs.
template <std::size_t Q, class T>
SMALLER_INLINE void add_dots(const T *const *x, Outputs<const double> R, std::size_t rows, double *const *g) {
    Four sum[ABREAST][Q] = {};
    std::size_t i = 0;
    for (; i + 4 <= rows; i += 4) {
        Four a[ABREAST];
        for (std::size_t j = 0; j < ABREAST; ++j) a[j] = four(x[j] + i);
        for (std::size_t k = 0; k < Q; ++k) {
            const Four r = four(R[k] + i);
            for (std::size_t j = 0; j < ABREAST; ++j) sum[j][k] += a[j] * r;
        }
    }
    for (std::size_t j = 0; j < ABREAST; ++j)
        for (std::size_t k = 0; k < Q; ++k) {
            double rest = 0.0;
            for (std::size_t t = i; t < rows; ++t) rest += double(x[j][t]) * R[k][t];
            g[j][k] += total(sum[j][k]) + rest;
        }
}

// Calls f with the number of outputs in a tile as a constant.
template <class F>
SMALLER_INLINE void with_size(std::size_t outputs, F &&f) {
    switch (outputs) {
        case 1: f(std::integral_constant<std::size_t, 1>()); break;
        case 2: f(std::integral_constant<std::size_t, 2>()); break;
        case 3: f(std::integral_constant<std::size_t, 3>()); break;
        case 4: f(std::integral_constant<std::size_t, 4>()); break;
        default: f(std::integral_constant<std::size_t, TILE>());
    }
}

// The columns that move, in groups; the last one is filled up with columns that do not.
template <class T>
struct Moving {
    std::vector<const T *> columns;
    std::vector<double> w;  // (columns, q)

    Moving(const Dense<T> &X, const double *change, std::size_t d, std::size_t q) {
        for (std::size_t j = 0; change && j < d; ++j)
            if (std::any_of(change + j * q, change + (j + 1) * q, [](double step) { return step != 0.0; })) {
                columns.push_back(X.at(std::int64_t(j)));
                w.insert(w.end(), change + j * q, change + (j + 1) * q);
            }
        while (columns.size() % GROUP) columns.push_back(columns.back());
        w.resize(columns.size() * q);
    }
};

#define SMALLER_PRODUCTS(T)                                                                                     \
    /* eta += X dw for a chunk of rows */                                                                       \
    SMALLER_CLONES inline void add_product(const Moving<T> &moving, std::size_t start, std::size_t rows,        \
                                           std::size_t q, Outputs<double> eta) {                                \
        const T *now[GROUP], *following[GROUP];                                                                 \
        for (std::size_t j = 0; j < moving.columns.size(); j += GROUP) {                                        \
            const std::size_t after = j + GROUP < moving.columns.size() ? j + GROUP : j;                        \
            for (std::size_t g = 0; g < GROUP; ++g) {                                                           \
                now[g] = moving.columns[j + g] + start;                                                         \
                following[g] = moving.columns[after + g] + start;                                               \
            }                                                                                                   \
            for (std::size_t k = 0; k < q; k += TILE)                                                           \
                with_size(q - k, [&](auto size) SMALLER_INLINED {                                               \
                    const Outputs<double> out{eta[k] + start, eta.stride};                                      \
                    add_columns<size()>(now, following, moving.w.data() + j * q + k, q, out, rows);             \
                });                                                                                             \
        }                                                                                                       \
    }                                                                                                           \
    /* G += X' R for a chunk of rows */                                                                         \
    SMALLER_CLONES inline void add_adjoint(const Dense<T> &X, std::size_t d, std::size_t start, std::size_t rows, \
                                           std::size_t q, Outputs<const double> R, double *G) {                 \
        double unused[TILE];                                                                                    \
        for (std::size_t j = 0; j < d; j += ABREAST)                                                             \
            for (std::size_t k = 0; k < q; k += TILE) {                                                         \
                const T *x[ABREAST];                                                                             \
                double *g[ABREAST];                                                                              \
                for (std::size_t p = 0; p < ABREAST; ++p) {                                                      \
                    x[p] = X.at(std::int64_t(std::min(j + p, d - 1))) + start;                                  \
                    g[p] = j + p < d ? G + (j + p) * q + k : unused;                                            \
                }                                                                                               \
                with_size(q - k, [&](auto size) SMALLER_INLINED {                                               \
                    add_dots<size()>(x, Outputs<const double>{R[k] + start, R.stride}, rows, g);                \
                });                                                                                             \
            }                                                                                                   \
    }
SMALLER_PRODUCTS(double)
SMALLER_PRODUCTS(float)
#undef SMALLER_PRODUCTS

// Moves eta (q, n) by X change, where `change` (d, q) is not null; fills the residual (q, n) and the gradient G (d, q)
// there, and returns the loss. The rows fall into `parts` whose sums are added in order, so that the number of threads
// that share them makes no difference.
template <class T>
double pass(const Dense<T> &X, std::size_t d, const Softmax &all, const double *change, Outputs<double> eta,
            Outputs<double> residual, double *G, std::size_t parts, std::size_t threads) {
    const std::size_t n = all.n, q = all.q;
    const Moving<T> moving(X, change, d, q);
    const std::size_t step = std::max(FEWEST_ROWS, CHUNK_BYTES / (sizeof(T) * std::max<std::size_t>(d, 1)) / 4 * 4);
    const std::size_t share = ((n + parts - 1) / parts + step - 1) / step * step;
    std::vector<double> losses(parts), gradients(parts * d * q);
    const auto work = [&](std::size_t thread) {
        for (std::size_t part = thread; part < parts; part += threads)
            for (std::size_t i = part * share; i < std::min(n, (part + 1) * share); i += step) {
                const std::size_t rows = std::min(step, n - i);
                add_product(moving, i, rows, q, eta);
                const Softmax some{all.y.from(i), all.c ? all.c + i : nullptr, rows, q, all.pinned};
                const Outputs<double> P = residual.from(i);
                losses[part] += some.evaluate({eta.data + i, eta.stride}, P);
                some.differentiate({P.data, P.stride}, P);
                add_adjoint(X, d, i, rows, q, {residual.data, residual.stride}, gradients.data() + part * d * q);
            }
    };
    std::vector<std::thread> others;
    std::size_t started = 1;
    try {
        for (; started < threads; ++started) others.emplace_back(work, started);
    } catch (const std::system_error &) {  // no thread to be had: the rest is done here
    }
    work(0);
    for (std::size_t thread = started; thread < threads; ++thread) work(thread);
    for (std::thread &other : others) other.join();
    double loss = 0.0;
    std::fill(G, G + d * q, 0.0);
    for (std::size_t part = 0; part < parts; ++part) {
        loss += losses[part];
        for (std::size_t i = 0; i < d * q; ++i) G[i] += gradients[part * d * q + i];
    }
    return loss;
}

}  // namespace smaller
