// Two ways to store the columns of a design; the sweep sees only dot, advance, both in one, add and moments.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "simd.hpp"

namespace smaller {

template <class T>
struct Dense {
    const T *data;
    std::int64_t stride;  // elements between the starts of two columns
    std::size_t rows;

    // The moving part of the weights that is worth sweeps of its own: dense columns soon make all others move again.
    static constexpr double SMALL_PART = 0.0;

    const T *at(std::int64_t j) const { return data + j * stride; }
    std::size_t size(std::int64_t) const { return rows; }
    void prefetch(std::int64_t) const {}  // the hardware sees long columns coming
    double dot(std::int64_t j, const double *r) const { return smaller::dot(at(j), r, rows); }
    void advance(std::int64_t j, const double *h, double step, double *r, double *z) const {
        smaller::advance(at(j), h, step, r, z, rows);
    }
    double advance_dot(std::int64_t j, const double *h, double step, double *r, double *z, std::int64_t next) const {
        return smaller::advance_dot(at(j), h, step, r, z, at(next), rows);
    }
    void add(std::int64_t j, double step, double *z) const { smaller::axpy(at(j), step, z, rows); }
    Moments moments(std::int64_t j, const double *h, double center, double) const {
        return smaller::moments(at(j), h, center, rows);
    }
};

template <class T, class I>
struct Csc {
    const T *data;
    const I *indices;
    const I *indptr;
    std::size_t rows;

    static constexpr double SMALL_PART = 0.05;  // sparse columns hardly meet

    std::size_t size(std::int64_t j) const { return std::size_t(indptr[j + 1] - indptr[j]); }
    // Short columns, here and there in memory, end before the hardware has noticed them.
    void prefetch(std::int64_t j) const {
        const I start = indptr[j], end = std::min(indptr[j + 1], I(start + 64));
        for (I i = start; i < end; i += I(64 / sizeof(I))) SMALLER_PREFETCH(indices + i);
        for (I i = start; i < end; i += I(64 / sizeof(T))) SMALLER_PREFETCH(data + i);
    }
    double dot(std::int64_t j, const double *r) const {
        double even = 0.0, odd = 0.0;
        I i = indptr[j];
        const I end = indptr[j + 1];
        for (; i + 1 < end; i += 2) {
            even += double(data[i]) * r[indices[i]];
            odd += double(data[i + 1]) * r[indices[i + 1]];
        }
        if (i < end) even += double(data[i]) * r[indices[i]];
        return even + odd;
    }
    void advance(std::int64_t j, const double *h, double step, double *r, double *z) const {
        for (I i = indptr[j]; i < indptr[j + 1]; ++i) {
            const double move = step * double(data[i]);
            r[indices[i]] += h[indices[i]] * move;
            z[indices[i]] += move;
        }
    }
    double advance_dot(std::int64_t j, const double *h, double step, double *r, double *z, std::int64_t next) const {
        advance(j, h, step, r, z);
        return dot(next, r);
    }
    void add(std::int64_t j, double step, double *z) const {
        for (I i = indptr[j]; i < indptr[j + 1]; ++i) z[indices[i]] += step * double(data[i]);
    }
    // `total` is the sum of h over all rows: the zeros of the column count as -center.
    Moments moments(std::int64_t j, const double *h, double center, double total) const {
        Moments sum{0.0, 0.0};
        double seen = 0.0;
        for (I i = indptr[j]; i < indptr[j + 1]; ++i) {
            const double a = double(data[i]) - center, ha = h[indices[i]] * a;
            sum.linear += ha;
            sum.square += ha * a;
            seen += h[indices[i]];
        }
        if (center != 0.0) {
            sum.linear -= center * (total - seen);
            sum.square += center * center * std::max(total - seen, 0.0);
        }
        return sum;
    }
};

}  // namespace smaller
