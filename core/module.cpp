// Python bindings: arrays in, arrays out, the interpreter released while the loops run.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <nanobind/stl/optional.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "blocks.hpp"
#include "coordinate.hpp"
#include "newton.hpp"
#include "pass.hpp"
#include "rounds.hpp"
#include "softmax.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

template <class T>
using Vector = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T>
using Matrix = nb::ndarray<T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
template <class T>
using Strided = nb::ndarray<T, nb::ndim<2>, nb::device::cpu>;
using Index = std::int64_t;

void require(bool condition, const char *message) {
    if (!condition) throw nb::value_error(message);
}

// What a descent over any kind of columns works on; see coordinate.hpp for the meaning of each array.
struct Quadratic {
    Vector<const Index> first, column;
    Vector<const double> gradient, slope, ridge;
    Vector<double> w, square, mean;
    Matrix<const double> d;
    std::optional<Matrix<const double>> u;
    Matrix<double> delta;
    std::optional<Vector<double>> s;
    std::optional<Vector<const double>> gb;
    Vector<double> b;
    Vector<double> progress;

    void check(std::size_t rows, std::size_t columns) const {
        const std::size_t q = d.shape(0), n = d.shape(1), m = column.shape(0);
        require(n == rows, "d must have one column per row of the design");
        require(first.shape(0) == q + 1 && first(0) == 0 && first(q) == Index(m), "first must run from 0 to m");
        for (std::size_t k = 0; k < q; ++k) require(first(k) <= first(k + 1), "first must not decrease");
        for (std::size_t j = 0; j < m; ++j)
            require(column(j) >= 0 && column(j) < Index(columns), "column index out of range");
        for (std::size_t size : {gradient.shape(0), slope.shape(0), ridge.shape(0), w.shape(0), square.shape(0), mean.shape(0)})
            require(size == m, "coordinate arrays must have length m");
        require(delta.shape(0) == q && delta.shape(1) == n, "delta must be (q, n)");
        require(!u || (u->shape(0) == q && u->shape(1) == n), "u must be (q, n)");
        require(bool(u) == bool(s) && (!s || s->shape(0) == n), "s must have length n, and comes with u");
        require((!gb || gb->shape(0) == q) && b.shape(0) == q, "gb and b must have length q");
        require(progress.shape(0) == 6, "progress must have length 6");
    }
};

template <class Columns>
bool descend(const Columns &columns, Quadratic &a, Index max_sweeps, double tol, double budget) {
    const smaller::Coordinates at{a.first.data(), a.column.data(), a.gradient.data(), a.slope.data(),
                                  a.ridge.data(), a.w.data(),      a.square.data(),   a.mean.data()};
    const smaller::Model model{a.d.data(),
                               a.u ? a.u->data() : nullptr,
                               a.delta.data(),
                               a.s ? a.s->data() : nullptr,
                               a.gb ? a.gb->data() : nullptr,
                               a.b.data(),
                               a.d.shape(1),
                               a.d.shape(0)};
    double *state = a.progress.data();
    smaller::Progress p{Index(state[0]), Index(state[1]), state[2], Index(state[3]), state[4] != 0.0, state[5]};
    {
        nb::gil_scoped_release release;
        smaller::Descent<Columns>(columns, at, model).run(p, max_sweeps, tol, budget);
    }
    state[0] = double(p.output);
    state[1] = double(p.coordinate);
    state[2] = p.sweeps;
    state[3] = double(p.level);
    state[4] = p.done ? 1.0 : 0.0;
    state[5] = p.largest;
    return p.done;
}

#define QUADRATIC_PARAMETERS                                                                                    \
    Vector<const Index> first, Vector<const Index> column, Vector<const double> gradient,                       \
        Vector<const double> slope, Vector<const double> ridge, Vector<double> w, Vector<double> square,        \
        Vector<double> mean, Matrix<const double> d, std::optional<Matrix<const double>> u, Matrix<double> delta, \
        std::optional<Vector<double>> s, std::optional<Vector<const double>> gb, Vector<double> b,              \
        Vector<double> progress, Index max_sweeps, double tol, double budget
#define QUADRATIC_VALUES first, column, gradient, slope, ridge, w, square, mean, d, u, delta, s, gb, b, progress
// noconvert: a silent copy of an output array would lose the result.
#define QUADRATIC_NAMES                                                                                         \
    "first"_a.noconvert(), "column"_a.noconvert(), "gradient"_a.noconvert(), "slope"_a.noconvert(),             \
        "ridge"_a.noconvert(), "w"_a.noconvert(), "square"_a.noconvert(), "mean"_a.noconvert(),                 \
        "d"_a.noconvert(), "u"_a.noconvert().none(), "delta"_a.noconvert(), "s"_a.noconvert().none(),           \
        "gb"_a.noconvert().none(), "b"_a.noconvert(), "progress"_a.noconvert(), "max_sweeps"_a, "tol"_a, "budget"_a

template <class T>
bool descend_dense(Strided<const T> X, QUADRATIC_PARAMETERS) {
    require(X.shape(0) <= 1 || X.stride(0) == 1, "X must be stored column by column");
    Quadratic a{QUADRATIC_VALUES};
    a.check(X.shape(0), X.shape(1));
    return descend(smaller::Dense<T>{X.data(), X.stride(1), X.shape(0)}, a, max_sweeps, tol, budget);
}

template <class T, class I>
bool descend_csc(Vector<const T> data, Vector<const I> indices, Vector<const I> indptr, QUADRATIC_PARAMETERS) {
    Quadratic a{QUADRATIC_VALUES};
    const std::size_t rows = d.shape(1);
    require(indptr.shape(0) >= 1 && indices.shape(0) == data.shape(0), "data and indices must have one length");
    a.check(rows, indptr.shape(0) - 1);
    return descend(smaller::Csc<T, I>{data.data(), indices.data(), indptr.data(), rows}, a, max_sweeps, tol, budget);
}

#define NEWTON_PARAMETERS                                                                                       \
    Vector<const Index> first, Vector<const Index> column, Vector<const double> slope, Vector<const double> ridge, \
        Vector<double> w, Vector<double> b, Matrix<double> eta, Matrix<double> residual, Matrix<const double> y, \
        std::optional<Vector<const double>> weight, bool pinned, bool intercept, double damping, double target,  \
        Index max_steps, Index max_sweeps
#define NEWTON_VALUES                                                                                           \
    first, column, slope, ridge, w, b, eta, residual, y, weight, pinned, intercept, damping, target, max_steps, max_sweeps
#define NEWTON_NAMES                                                                                            \
    "first"_a.noconvert(), "column"_a.noconvert(), "slope"_a.noconvert(), "ridge"_a.noconvert(), "w"_a.noconvert(), \
        "b"_a.noconvert(), "eta"_a.noconvert(), "residual"_a.noconvert(), "y"_a.noconvert(),                    \
        "weight"_a.noconvert().none(), "pinned"_a, "intercept"_a, "damping"_a, "target"_a, "max_steps"_a, "max_sweeps"_a

// Returns (violation, loss, damping, sweeps, slow).
template <class Columns>
nb::tuple newton(const Columns &columns, std::size_t n_columns, NEWTON_PARAMETERS) {
    const std::size_t q = y.shape(0), n = y.shape(1), m = column.shape(0);
    require(n == columns.rows, "y must have one column per row of the design");
    require(first.shape(0) == q + 1 && first(0) == 0 && first(q) == Index(m), "first must run from 0 to m");
    for (std::size_t k = 0; k < q; ++k) require(first(k) <= first(k + 1), "first must not decrease");
    for (std::size_t j = 0; j < m; ++j)
        require(column(j) >= 0 && column(j) < Index(n_columns), "column index out of range");
    for (std::size_t size : {slope.shape(0), ridge.shape(0), w.shape(0)})
        require(size == m, "coordinate arrays must have length m");
    for (const Matrix<double> *matrix : {&eta, &residual})
        require(matrix->shape(0) == q && matrix->shape(1) == n, "eta and residual must be (q, n)");
    require(b.shape(0) == q && (!weight || weight->shape(0) == n), "b must have length q, weight length n");
    const smaller::Softmax rows{{y.data(), n}, weight ? weight->data() : nullptr, n, q, pinned};
    smaller::NewtonResult result;
    {
        nb::gil_scoped_release release;
        result = smaller::Newton<Columns>(columns, rows, first.data(), column.data(), slope.data(), ridge.data(), intercept)
                     .run(w.data(), b.data(), eta.data(), residual.data(), damping, target, max_steps, max_sweeps);
    }
    return nb::make_tuple(result.violation, result.loss, damping, result.sweeps, result.slow);
}

template <class T>
nb::tuple newton_dense(Strided<const T> X, NEWTON_PARAMETERS) {
    require(X.shape(0) <= 1 || X.stride(0) == 1, "X must be stored column by column");
    return newton(smaller::Dense<T>{X.data(), X.stride(1), X.shape(0)}, X.shape(1), NEWTON_VALUES);
}

template <class T, class I>
nb::tuple newton_csc(Vector<const T> data, Vector<const I> indices, Vector<const I> indptr, NEWTON_PARAMETERS) {
    require(indptr.shape(0) >= 1 && indices.shape(0) == data.shape(0), "data and indices must have one length");
    const smaller::Csc<T, I> columns{data.data(), indices.data(), indptr.data(), y.shape(1)};
    return newton(columns, indptr.shape(0) - 1, NEWTON_VALUES);
}

// Hands numbers over to an array.
template <class T>
nb::object keep(std::vector<T> &&values, std::initializer_list<std::size_t> shape) {
    auto *owned = new std::vector<T>(std::move(values));
    nb::capsule owner(owned, [](void *p) noexcept { delete static_cast<std::vector<T> *>(p); });
    return nb::cast(nb::ndarray<nb::numpy, T>(owned->data(), shape, owner));
}

// The path of a small problem, with everything it needs kept alive.
class SmallPath {
  public:
    struct Data {
        Matrix<const double> y;
        std::optional<Vector<const double>> weight;
        Vector<const double> slope, ridge, b;
        bool pinned, intercept;
    };

    template <class Columns>
    SmallPath(const Columns &columns, std::size_t d, nb::object owner, const Data &data) : owner(owner), data(data) {
        const std::size_t q = data.y.shape(0), n = data.y.shape(1);
        require(n == columns.rows && data.slope.shape(0) == d, "y and slope must fit the design");
        require(!data.weight || data.weight->shape(0) == n, "weight must have length n");
        require(data.ridge.shape(0) == d && data.b.shape(0) == q, "ridge must have length d, b length q");
        const smaller::Softmax rows{{data.y.data(), n}, data.weight ? data.weight->data() : nullptr, n, q, data.pinned};
        path = std::make_unique<smaller::PathOver<Columns>>(columns, rows, data.slope.data(), data.ridge.data(), d,
                                                            data.intercept, data.b.data());
    }

    void next(double strength, double ratio) {
        nb::gil_scoped_release release;
        path->next(strength, ratio);
    }
    // Returns (objective, violation, gap), or None if the columns are too correlated for this way.
    nb::object round(double aim, double reach, Index room, Index max_steps, Index max_sweeps) {
        smaller::Certificate found;
        {
            nb::gil_scoped_release release;
            found = path->round({aim, reach, room, max_steps, max_sweeps});
        }
        if (found.slow) return nb::none();
        return nb::make_tuple(found.objective, found.violation, found.gap);
    }
    double loss() const { return path->current_loss(); }

    // The columns in use (m,), in order, and their weights (q, m).
    nb::tuple used() const {
        const std::vector<double> &w = path->weights();
        const std::size_t q = data.y.shape(0), d = data.slope.shape(0);
        std::vector<Index> columns;
        for (const std::size_t at : path->places()) columns.push_back(Index(at % d));
        std::sort(columns.begin(), columns.end());
        columns.erase(std::unique(columns.begin(), columns.end()), columns.end());
        std::vector<double> values;
        for (std::size_t k = 0; k < q; ++k)
            for (const Index j : columns) values.push_back(w[k * d + std::size_t(j)]);
        const std::size_t m = columns.size();
        return nb::make_tuple(keep(std::move(columns), {m}), keep(std::move(values), {q, m}));
    }
    nb::object intercepts() const { return keep(std::vector<double>(path->intercepts()), {data.y.shape(0)}); }

  private:
    nb::object owner;  // of the columns
    Data data;
    std::unique_ptr<smaller::Path> path;
};

#define PATH_PARAMETERS                                                                                         \
    Matrix<const double> y, std::optional<Vector<const double>> weight, Vector<const double> slope,             \
        Vector<const double> ridge, Vector<const double> b, bool pinned, bool intercept
#define PATH_VALUES                                                                                             \
    SmallPath::Data { y, weight, slope, ridge, b, pinned, intercept }
#define PATH_NAMES                                                                                              \
    "y"_a.noconvert(), "weight"_a.noconvert().none(), "slope"_a.noconvert(), "ridge"_a.noconvert(),             \
        "b"_a.noconvert(), "pinned"_a, "intercept"_a

template <class T>
SmallPath *path_dense(Strided<const T> X, PATH_PARAMETERS) {
    require(X.shape(0) <= 1 || X.stride(0) == 1, "X must be stored column by column");
    const smaller::Dense<T> columns{X.data(), X.stride(1), X.shape(0)};
    return new SmallPath(columns, X.shape(1), nb::cast(X), PATH_VALUES);
}

template <class T, class I>
SmallPath *path_csc(Vector<const T> data, Vector<const I> indices, Vector<const I> indptr, PATH_PARAMETERS) {
    require(indptr.shape(0) >= 1 && indices.shape(0) == data.shape(0), "data and indices must have one length");
    const smaller::Csc<T, I> columns{data.data(), indices.data(), indptr.data(), y.shape(1)};
    return new SmallPath(columns, indptr.shape(0) - 1, nb::make_tuple(data, indices, indptr), PATH_VALUES);
}

Index descend_gram(Matrix<const double> H, Vector<double> gradient, Vector<const double> slope,
                   Vector<const double> ridge, Vector<double> w, Index max_sweeps, double tol) {
    const std::size_t m = H.shape(0);
    require(H.shape(1) == m, "H must be square");
    for (std::size_t size : {gradient.shape(0), slope.shape(0), ridge.shape(0), w.shape(0)})
        require(size == m, "coordinate arrays must have length m");
    nb::gil_scoped_release release;
    return smaller::descend_gram(H.data(), m, gradient.data(), slope.data(), ridge.data(), w.data(), max_sweeps, tol);
}

Index descend_blocks(Matrix<const double> H, Vector<double> gradient, Vector<const Index> first, Vector<const double> norm,
                     Vector<const double> slope, Vector<const double> ridge, Vector<const double> lower,
                     Vector<const double> upper, Vector<const double> axes, Vector<const double> values,
                     Vector<double> w, Index max_sweeps, double tol) {
    const std::size_t m = H.shape(0), blocks = norm.shape(0);
    require(H.shape(1) == m, "H must be square");
    for (std::size_t size : {gradient.shape(0), slope.shape(0), ridge.shape(0), lower.shape(0), upper.shape(0),
                             values.shape(0), w.shape(0)})
        require(size == m, "coordinate arrays must have length m");
    require(first.shape(0) == blocks + 1 && first(0) == 0 && first(blocks) == Index(m), "first must run from 0 to m");
    std::size_t squares = 0;
    for (std::size_t b = 0; b < blocks; ++b) {
        require(first(b) < first(b + 1), "first must increase");
        squares += std::size_t(first(b + 1) - first(b)) * std::size_t(first(b + 1) - first(b));
    }
    require(axes.shape(0) == squares, "axes must hold a square for every block");
    const smaller::BlockPenalty penalty{first.data(), norm.data(), slope.data(),  ridge.data(), lower.data(),
                                        upper.data(), axes.data(), values.data(), blocks};
    nb::gil_scoped_release release;
    return smaller::BlockDescent(H.data(), m, penalty).run(gradient.data(), w.data(), max_sweeps, tol);
}

void correct(Matrix<double> H, Vector<const double> a, double alpha, Vector<const double> b, double beta) {
    const std::size_t m = H.shape(0);
    require(H.shape(1) == m && a.shape(0) == m && b.shape(0) == m, "H must be (m, m), a and b must have length m");
    nb::gil_scoped_release release;
    smaller::correct(H.data(), m, a.data(), alpha, b.data(), beta);
}

template <class T>
smaller::Outputs<T> outputs(const Strided<T> &a, std::size_t n, std::size_t q) {
    require(a.shape(0) == n && a.shape(1) == q, "eta, y and residual must be (n, q)");
    require(n <= 1 || a.stride(0) == 1, "eta, y and residual must be stored column by column");
    return {a.data(), std::size_t(a.stride(1))};
}

template <class T>
double pass(Strided<const T> X, std::optional<Matrix<const double>> change, Strided<double> eta, Strided<const double> y,
            std::optional<Vector<const double>> weight, Strided<double> residual, Matrix<double> G, bool pinned,
            Index parts, Index threads) {
    const std::size_t n = X.shape(0), d = X.shape(1), q = eta.shape(1);
    require(n <= 1 || X.stride(0) == 1, "X must be stored column by column");
    require(q > 0 && parts > 0 && threads > 0, "outputs, parts and threads must be at least one");
    require(!weight || weight->shape(0) == n, "weight must have length n");
    require(G.shape(0) == d && G.shape(1) == q, "G must be (d, q)");
    require(!change || (change->shape(0) == d && change->shape(1) == q), "change must be (d, q)");
    const smaller::Softmax rows{outputs(y, n, q), weight ? weight->data() : nullptr, n, q, pinned};
    const auto moved = outputs(eta, n, q), out = outputs(residual, n, q);
    const smaller::Dense<T> columns{X.data(), X.stride(1), n};
    nb::gil_scoped_release release;
    return smaller::pass(columns, d, rows, change ? change->data() : nullptr, moved, out, G.data(),
                         std::size_t(parts), std::size_t(threads));
}

double softmax(Strided<const double> eta, Strided<const double> y, std::optional<Vector<const double>> weight,
               Strided<double> residual, bool pinned) {
    const std::size_t n = eta.shape(0), q = eta.shape(1);
    require(q > 0 && (!weight || weight->shape(0) == n), "weight must have length n");
    const smaller::Softmax rows{outputs(y, n, q), weight ? weight->data() : nullptr, n, q, pinned};
    const auto in = outputs(eta, n, q);
    const auto out = outputs(residual, n, q);
    nb::gil_scoped_release release;
    const double loss = rows.evaluate(in, out);
    rows.differentiate({out.data, out.stride}, out);
    return loss;
}

}  // namespace

NB_MODULE(_core, m) {
    m.doc() = "Coordinate descent on quadratic models, and the softmax; see core/coordinate.hpp and core/softmax.hpp.";
    m.def("descend", &descend_dense<double>, "X"_a.noconvert(), QUADRATIC_NAMES);
    m.def("descend", &descend_dense<float>, "X"_a.noconvert(), QUADRATIC_NAMES);
    m.def("newton", &newton_dense<double>, "X"_a.noconvert(), NEWTON_NAMES);
    m.def("newton", &newton_dense<float>, "X"_a.noconvert(), NEWTON_NAMES);
    m.def("path", &path_dense<double>, "X"_a.noconvert(), PATH_NAMES);
    m.def("path", &path_dense<float>, "X"_a.noconvert(), PATH_NAMES);
#define SPARSE(T, I)                                                                                            \
    m.def("descend_sparse", &descend_csc<T, I>, "data"_a.noconvert(), "indices"_a.noconvert(), "indptr"_a.noconvert(), \
          QUADRATIC_NAMES);                                                                                     \
    m.def("newton_sparse", &newton_csc<T, I>, "data"_a.noconvert(), "indices"_a.noconvert(), "indptr"_a.noconvert(), \
          NEWTON_NAMES);                                                                                        \
    m.def("path_sparse", &path_csc<T, I>, "data"_a.noconvert(), "indices"_a.noconvert(), "indptr"_a.noconvert(), \
          PATH_NAMES);
    SPARSE(double, std::int32_t)
    SPARSE(double, std::int64_t)
    SPARSE(float, std::int32_t)
    SPARSE(float, std::int64_t)
#undef SPARSE
    nb::class_<SmallPath>(m, "SmallPath")
        .def("next", &SmallPath::next, "strength"_a, "ratio"_a)
        .def("round", &SmallPath::round, "aim"_a, "reach"_a, "room"_a, "max_steps"_a, "max_sweeps"_a)
        .def("used", &SmallPath::used)
        .def_prop_ro("loss", &SmallPath::loss)
        .def_prop_ro("b", &SmallPath::intercepts);
#define PASS_NAMES                                                                                              \
    "X"_a.noconvert(), "change"_a.noconvert().none(), "eta"_a.noconvert(), "y"_a.noconvert(),                   \
        "weight"_a.noconvert().none(), "residual"_a.noconvert(), "G"_a.noconvert(), "pinned"_a, "parts"_a, \
        "threads"_a
    m.def("pass_over", &pass<double>, PASS_NAMES);
    m.def("pass_over", &pass<float>, PASS_NAMES);
    m.def("softmax", &softmax, "eta"_a.noconvert(), "y"_a.noconvert(), "weight"_a.noconvert().none(),
          "residual"_a.noconvert(), "pinned"_a);
    m.def("descend_gram", &descend_gram, "H"_a.noconvert(), "gradient"_a.noconvert(), "slope"_a.noconvert(),
          "ridge"_a.noconvert(), "w"_a.noconvert(), "max_sweeps"_a, "tol"_a);
    m.def("descend_blocks", &descend_blocks, "H"_a.noconvert(), "gradient"_a.noconvert(), "first"_a.noconvert(),
          "norm"_a.noconvert(), "slope"_a.noconvert(), "ridge"_a.noconvert(), "lower"_a.noconvert(),
          "upper"_a.noconvert(), "axes"_a.noconvert(), "values"_a.noconvert(), "w"_a.noconvert(), "max_sweeps"_a,
          "tol"_a);
    m.def("correct", &correct, "H"_a.noconvert(), "a"_a.noconvert(), "alpha"_a, "b"_a.noconvert(), "beta"_a);
}
