#include "runtime/matmul.h"

#ifdef TANDEM_HAS_DNNL
#include <array>
#include <bit>
#include <map>
#include <optional>
#include <unordered_map>

#include "base/check.h"
#include "runtime/onednn.h"
#endif

#include "runtime/aten.h"

namespace tandem::runtime {

#ifdef TANDEM_HAS_DNNL

namespace {

// Returns whether oneDNN is faster than ATen's choice, as measured on Sapphire Rapids and Zen 4.
bool is_onednn_faster() {
#ifdef __x86_64__
  static const bool out =
      __builtin_cpu_supports("avx512bw") != 0 && __builtin_cpu_supports("avx512vl") != 0;
  return out;
#else
  return false;
#endif
}

// Order of a matrix in memory: row by row, or column by column.
struct MatrixLayout {
  bool by_columns = false;
  std::int64_t stride = 0;  // Distance from one row or column to the next
};

std::optional<MatrixLayout> find_matrix_layout(const at::Tensor& t) {
  const auto rows = t.size(0);
  const auto columns = t.size(1);
  if (t.stride(1) == 1 && t.stride(0) >= columns) return MatrixLayout{false, t.stride(0)};
  if (t.stride(0) == 1 && t.stride(1) >= rows) return MatrixLayout{true, t.stride(1)};
  return std::nullopt;
}

struct Operands {
  const at::Tensor& a;
  const at::Tensor& b;
  MatrixLayout layout_a, layout_b;

  [[nodiscard]] std::int64_t rows() const { return a.size(0); }
  [[nodiscard]] std::int64_t depth() const { return a.size(1); }
  [[nodiscard]] std::int64_t columns() const { return b.size(1); }
};

// Returns the operands if oneDNN should multiply them, and nullopt otherwise. Small matmuls are
// done before oneDNN has set up its own.
std::optional<Operands> find_onednn_operands(const at::Tensor& a, const at::Tensor& b) {
  constexpr std::int64_t kSmall = 1 << 18;
  const auto fits = [](const at::Tensor& t) {
    return t.is_cpu() && t.scalar_type() == at::kFloat && t.dim() == 2;
  };
  if (!is_onednn_faster() || !fits(a) || !fits(b)) return std::nullopt;
  if (a.size(0) * a.size(1) * b.size(1) < kSmall) return std::nullopt;
  const auto lie_a = find_matrix_layout(a);
  const auto lie_b = find_matrix_layout(b);
  if (!lie_a || !lie_b) return std::nullopt;
  return Operands{a, b, *lie_a, *lie_b};
}

// Returns whether the matmul is x [rows, depth] times the transpose of a weight [columns, depth],
// as in a layer's forward pass.
bool is_of_transposed_weight(const Operands& o) {
  return !o.layout_a.by_columns && o.layout_b.by_columns;
}

constexpr std::int64_t kFewRows = 16;

// Returns whether oneDNN's older routine, sgemm, is faster. It is if the second operand is
// row-major: for gradients of inputs, and for gradients of wide weights. (For narrow weights it
// does not copy blocks of the first operand, which are strided along the sum.) It is also faster if
// rows are so few that reading the weight takes all the time.
bool takes_sgemm(const Operands& o) {
  constexpr std::int64_t kWide = 1024;
  if (is_of_transposed_weight(o)) return o.rows() < kFewRows;
  return !o.layout_b.by_columns && (!o.layout_a.by_columns || o.columns() >= kWide);
}

// Returns whether the newer routine is faster with its operands exchanged. It copies the second
// operand into blocks, and reads the first one in place. With few rows, copying a weight costs up
// to a quarter of the matmul. With exchanged operands it copies x, and the result must be
// transposed afterwards. Relative to the matmul, copying the weight costs 1 / rows, and transposing
// the result 1 / depth.
bool is_faster_exchanged(const Operands& o) {
  constexpr std::int64_t kManyRows = 128;
  constexpr std::int64_t kDeep = 8;  // Minimum depth per row
  return is_of_transposed_weight(o) && o.rows() >= kFewRows && o.rows() <= kManyRows &&
         o.depth() >= kDeep * o.rows() && o.columns() >= 2 * o.rows();
}

void run_sgemm(const Operands& o, float factor, float keep, float* out) {
  const auto status =
      dnnl_sgemm(o.layout_a.by_columns ? 'T' : 'N', o.layout_b.by_columns ? 'T' : 'N', o.rows(),
                 o.columns(), o.depth(), factor, o.a.data_ptr<float>(), o.layout_a.stride,
                 o.b.data_ptr<float>(), o.layout_b.stride, keep, out, o.columns());
  CHECK(status == dnnl_success, int{status});
}

// The use of a matmul's result: it is written, plus `bias`, or `factor` times it is added.
struct MatmulEpilogue {
  at::Tensor bias = {};
  std::optional<float> factor = {};
};

// The newer routine (oneDNN's matmul primitive), created once per shape.
class MatmulPrimitives {
 public:
  void run(const Operands& o, const MatmulEpilogue& use, float* out) {
    const Key key = {o.rows(),
                     o.depth(),
                     o.columns(),
                     o.layout_a.by_columns,
                     o.layout_a.stride,
                     o.layout_b.by_columns,
                     o.layout_b.stride,
                     use.bias.defined(),
                     std::bit_cast<std::int32_t>(use.factor.value_or(0))};
    auto at = cached_.find(key);
    if (at == cached_.end()) at = cached_.emplace(key, make_matmul(o, use)).first;
    const auto& [description, primitive] = at->second;
    std::unordered_map<int, dnnl::memory> arguments = {
        {DNNL_ARG_SRC, {description.src_desc(), engine_, o.a.data_ptr()}},
        {DNNL_ARG_WEIGHTS, {description.weights_desc(), engine_, o.b.data_ptr()}},
        {DNNL_ARG_DST, {description.dst_desc(), engine_, out}}};
    if (use.bias.defined()) {
      arguments.insert({DNNL_ARG_BIAS, {description.bias_desc(), engine_, use.bias.data_ptr()}});
    }
    primitive.execute(stream_, arguments);
    stream_.wait();
  }

 private:
  using Key = std::array<std::int64_t, 9>;
  struct CachedMatmul {
    dnnl::matmul::primitive_desc description;
    dnnl::matmul primitive;
  };

  static dnnl::memory::desc describe_matrix(std::int64_t rows, std::int64_t columns,
                                            const MatrixLayout& lie) {
    const dnnl::memory::dims strides = {lie.by_columns ? 1 : lie.stride,
                                        lie.by_columns ? lie.stride : 1};
    return {{rows, columns}, dnnl::memory::data_type::f32, strides};
  }

  [[nodiscard]] CachedMatmul make_matmul(const Operands& o, const MatmulEpilogue& use) const {
    Matrices matrices = {.a = describe_matrix(o.rows(), o.depth(), o.layout_a),
                         .b = describe_matrix(o.depth(), o.columns(), o.layout_b),
                         .out = describe_matrix(o.rows(), o.columns(), {false, o.columns()})};
    if (use.bias.defined()) matrices.bias = describe_matrix(1, o.columns(), {false, o.columns()});
    const auto attributes =
        use.factor ? make_adding_attributes(*use.factor) : dnnl::primitive_attr();
    const auto description = make_matmul_description(matrices, engine_, attributes);
    return {description, dnnl::matmul(description)};
  }

  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  std::map<Key, CachedMatmul> cached_;
};

MatmulPrimitives& get_matmul_primitives() {
  static auto* out = new MatmulPrimitives;  // Leaked: the library may be unloaded first
  return *out;
}

at::Tensor compute_exchanged_matmul(const Operands& o, const at::Tensor& bias) {
  const auto weight = o.b.t();
  const auto x = o.a.t();
  const auto transposed = at::empty({o.columns(), o.rows()}, o.a.options());
  get_matmul_primitives().run({weight, x, {false, o.layout_b.stride}, {true, o.layout_a.stride}},
                              {}, transposed.data_ptr<float>());
  auto out = at::empty({o.rows(), o.columns()}, o.a.options());
  out.copy_(transposed.t());
  if (bias.defined()) out.add_(bias);
  return out;
}

}  // namespace

at::Tensor compute_matmul(const at::Tensor& a, const at::Tensor& b, const at::Tensor& bias) {
  const auto operands = find_onednn_operands(a, b);
  const bool has_plain_bias =
      !bias.defined() || (bias.is_contiguous() && bias.scalar_type() == at::kFloat);
  if (!operands || !has_plain_bias) return bias.defined() ? at::addmm(bias, a, b) : at::mm(a, b);
  if (is_faster_exchanged(*operands)) return compute_exchanged_matmul(*operands, bias);
  auto out = at::empty({operands->rows(), operands->columns()}, a.options());
  if (takes_sgemm(*operands)) {
    run_sgemm(*operands, 1, 0, out.data_ptr<float>());
    if (bias.defined()) out.add_(bias);
  } else {
    get_matmul_primitives().run(*operands, {.bias = bias}, out.data_ptr<float>());
  }
  return out;
}

void add_matmul(at::Tensor& sum, const at::Tensor& a, const at::Tensor& b, double factor) {
  const auto operands = find_onednn_operands(a, b);
  if (!operands || !sum.is_contiguous()) {
    sum.addmm_(a, b, 1, factor);
  } else if (takes_sgemm(*operands)) {
    run_sgemm(*operands, static_cast<float>(factor), 1, sum.data_ptr<float>());
  } else {
    get_matmul_primitives().run(*operands, {.factor = static_cast<float>(factor)},
                                sum.data_ptr<float>());
  }
}

void warm_up_matmuls() {
  constexpr std::int64_t kSize = 256;
  const auto a = at::zeros({kSize, kSize});
  auto sum = compute_matmul(a, a.t());
  add_matmul(sum, a.t(), a, 1);
  compute_matmul(a, a);
}

#else  // Without oneDNN

at::Tensor compute_matmul(const at::Tensor& a, const at::Tensor& b, const at::Tensor& bias) {
  return bias.defined() ? at::addmm(bias, a, b) : at::mm(a, b);
}

void add_matmul(at::Tensor& sum, const at::Tensor& a, const at::Tensor& b, double factor) {
  sum.addmm_(a, b, 1, factor);
}

void warm_up_matmuls() {}

#endif

namespace {

// libtorch has such matmuls for GPUs since version 2.8.
template <class Tensor>
at::Tensor compute_wide_matmul_by_aten(const Tensor& a, const Tensor& b) {
  if constexpr (requires { at::mm(a, b, at::kFloat); }) {
    if (a.is_cuda()) return at::mm(a, b, at::kFloat);
  }
  return at::mm(a.to(at::kFloat), b.to(at::kFloat));
}

}  // namespace

at::Tensor compute_wide_matmul(const at::Tensor& a, const at::Tensor& b) {
  return compute_wide_matmul_by_aten(a, b);
}

}  // namespace tandem::runtime
