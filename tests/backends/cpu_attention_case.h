// SPDX-License-Identifier: Apache-2.0
//
// Cases of the CPU attention: their tensors, between garbage, and the logits in
// double.
#ifndef TESTS_BACKENDS_CPU_ATTENTION_CASE_H_
#define TESTS_BACKENDS_CPU_ATTENTION_CASE_H_

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <ostream>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "backends/cpu/attention/attention.h"
#include "mtf/host_tensor.h"
#include "mtf/philox.h"
#include "tests/backends/garbage.h"

namespace mtf::cpu {

inline constexpr double kInf = std::numeric_limits<double>::infinity();
inline constexpr uint32_t kSeed = 11, kStep = 5;

// An attention whose dimensions are letters: b, g and h before length l, memory
// m and depth (d of queries and keys, v of values). The letters of a tensor are
// in the order of its memory layout; "" is a tensor that is not given, and "-"
// one without dimensions.
struct AttentionCase {
  DType dtype = kFloat32;
  std::string q = "blhd", k = "bmhd", v = "bmhv", output = "blhv";
  std::string mask = "", bias = "", offset = "", extra_logit = "";
  std::string d_logsumexp = "";
  DType bias_dtype = kFloat32;
  int64_t batch = 2, groups = 1, heads = 3, length = 7, memory = 7;
  int64_t depth_kv = 8, depth_v = 8;
  bool causal = false;
  int64_t window = 0;
  double scale = 0.5, soft_cap = 0, dropout = 0;
  int64_t length_offset = 0, memory_offset = 0;
  int64_t padding = 0;  // elements beyond the valid ones of each dimension
  uint64_t seed = 1;

  int64_t ExtentOf(char letter) const {
    switch (letter) {
      case 'b':
        return batch;
      case 'g':
        return groups;
      case 'h':
        return heads;
      case 'l':
        return length;
      case 'm':
        return memory;
      case 'd':
        return depth_kv;
      case 'v':
        return depth_v;
      default:
        return 1;
    }
  }
};

inline std::ostream& operator<<(std::ostream& out, const AttentionCase& c) {
  out << DTypeName(c.dtype) << " q " << c.q << " k " << c.k << " v " << c.v
      << " output " << c.output;
  for (const auto& [name, dims] : {std::pair{" mask ", c.mask},
                                   {" bias ", c.bias},
                                   {" offset ", c.offset},
                                   {" extra_logit ", c.extra_logit},
                                   {" d_logsumexp ", c.d_logsumexp}}) {
    if (!dims.empty()) out << name << dims;
  }
  out << " of " << DTypeName(c.bias_dtype) << ", b" << c.batch << " g"
      << c.groups << " h" << c.heads << " l" << c.length << " m" << c.memory
      << " d" << c.depth_kv << " v" << c.depth_v << " scale " << c.scale
      << " cap " << c.soft_cap << " causal " << c.causal << " window "
      << c.window << " dropout " << c.dropout << " offsets " << c.length_offset
      << " " << c.memory_offset << " padding " << c.padding << " seed "
      << c.seed;
  return out;
}

inline constexpr char kLetters[] = "bghlmdv";
using Index = std::array<int64_t, 7>;  // in the order of kLetters

inline void ForEach(const AttentionCase& c, const std::string& dims,
                    const std::function<void(const Index&)>& body) {
  Index index = {};
  const std::function<void(size_t)> loop = [&](size_t at) {
    if (at == dims.size()) return body(index);
    const size_t letter = std::string(kLetters).find(dims[at]);
    for (index[letter] = 0; index[letter] < c.ExtentOf(dims[at]);
         ++index[letter]) {
      loop(at + 1);
    }
    index[letter] = 0;
  };
  loop(0);
}

// A tensor in memory that is otherwise garbage.
class TestTensor {
 public:
  TestTensor() = default;
  TestTensor(const AttentionCase& c, const std::string& dims, DType dtype,
             testing::Garbage garbage)
      : given_(!dims.empty()), dims_(dims == "-" ? "" : dims), dtype_(dtype) {
    if (!given_) return;
    int64_t elements = 1;
    for (auto letter = dims_.rbegin(); letter != dims_.rend(); ++letter) {
      strides_[std::string(kLetters).find(*letter)] = elements;
      elements *= c.ExtentOf(*letter) + c.padding;
    }
    elements_ = elements;
    bytes_ = testing::GarbageBytes(
        garbage, dtype, (elements + 2 * kAround) * DTypeSize(dtype), 3);
  }

  bool given() const { return given_; }
  const std::string& dims() const { return dims_; }
  DType dtype() const { return dtype_; }
  int64_t elements() const { return elements_; }
  const std::vector<char>& bytes() const { return bytes_; }
  void* data() { return bytes_.data() + kAround * DTypeSize(dtype_); }
  const void* data() const {
    return bytes_.data() + kAround * DTypeSize(dtype_);
  }
  int64_t OffsetOf(const Index& index) const {
    int64_t offset = 0;
    for (size_t i = 0; i < index.size(); ++i) offset += index[i] * strides_[i];
    return offset;
  }
  double Get(const Index& index) const {
    return LoadElement(data(), dtype_, OffsetOf(index));
  }
  void Set(const Index& index, double value) {
    StoreElement(data(), dtype_, OffsetOf(index), value);
  }
  AttentionTensor View() {
    AttentionTensor view;
    view.dtype = dtype_;
    view.outer = {strides_[0], strides_[1], strides_[2]};
    view.length = strides_[3];
    view.memory = strides_[4];
    view.depth = strides_[5] + strides_[6];
    view.data = given_ ? data() : nullptr;
    return view;
  }

 private:
  static constexpr int64_t kAround = 16;  // elements
  bool given_ = false;
  std::string dims_;
  DType dtype_ = kFloat32;
  Index strides_ = {};
  int64_t elements_ = 0;
  std::vector<char> bytes_;
};

struct AttentionTensors {
  TestTensor q, k, v, mask, bias, offset, extra_logit, output, logsumexp;
  TestTensor d_output, d_logsumexp, d_q, d_k, d_v, d_bias, d_extra_logit;
};

inline void FillRandom(const AttentionCase& c, TestTensor& tensor,
                       std::mt19937_64& random, double size) {
  if (!tensor.given()) return;
  std::normal_distribution<double> normal(0, size);
  ForEach(c, tensor.dims(),
          [&](const Index& index) { tensor.Set(index, normal(random)); });
}

inline AttentionTensors MakeTensors(const AttentionCase& c,
                                    testing::Garbage garbage) {
  const auto make = [&](const std::string& dims, DType dtype) {
    return TestTensor(c, dims, dtype, garbage);
  };
  AttentionTensors t;
  t.q = make(c.q, c.dtype);
  t.k = make(c.k, c.dtype);
  t.v = make(c.v, c.dtype);
  t.mask = make(c.mask, kBool);
  t.bias = make(c.bias, c.bias_dtype);
  t.offset = make(c.offset, kInt32);
  t.extra_logit = make(c.extra_logit, c.bias_dtype);
  t.output = make(c.output, c.dtype);
  t.logsumexp = make("bghl", kFloat32);
  t.d_output = make(c.output, c.dtype);
  t.d_logsumexp = make(c.d_logsumexp, kFloat32);
  t.d_q = make(c.q, c.dtype);
  t.d_k = make(c.k, c.dtype);
  t.d_v = make(c.v, c.dtype);
  t.d_bias = make(c.bias, c.bias_dtype);
  t.d_extra_logit = make(c.extra_logit, c.bias_dtype);
  std::mt19937_64 random(c.seed);
  for (TestTensor* x : {&t.q, &t.k, &t.v, &t.bias, &t.extra_logit, &t.d_output,
                        &t.d_logsumexp}) {
    FillRandom(c, *x, random, 1);
  }
  if (t.mask.given()) {
    ForEach(c, t.mask.dims(), [&](const Index& index) {
      t.mask.Set(index, random() % 3 != 0 ? 1 : 0);
    });
  }
  if (t.offset.given()) {
    ForEach(c, t.offset.dims(), [&](const Index& index) {
      t.offset.Set(index, static_cast<double>(random() % 9) - 3);
    });
  }
  return t;
}

inline CpuAttention Bind(const AttentionCase& c, AttentionTensors& t) {
  CpuAttention a;
  a.spec.scale = c.scale;
  a.spec.soft_cap = c.soft_cap;
  a.spec.causal = c.causal;
  a.spec.window = c.window;
  a.spec.dropout = c.dropout;
  a.spec.stream = 77;
  // The logits of all ranks have more elements than those of this one.
  a.memory_stride = 1;
  a.length_stride = c.memory + 5;
  const int64_t length = c.length + 9;
  a.outer = {{c.batch, 1, 4 * (c.groups + 1) * length * a.length_stride},
             {c.groups, 1, 4 * length * a.length_stride},
             {c.heads, 0, length * a.length_stride}};
  a.length = c.length;
  a.memory = c.memory;
  a.depth_kv = c.depth_kv;
  a.depth_v = c.depth_v;
  a.length_offset = c.length_offset;
  a.memory_offset = c.memory_offset;
  a.q = t.q.View();
  a.k = t.k.View();
  a.v = t.v.View();
  a.mask = t.mask.View();
  a.bias = t.bias.View();
  a.offset = t.offset.View();
  a.extra_logit = t.extra_logit.View();
  a.output = t.output.View();
  a.logsumexp = t.logsumexp.View();
  a.d_output = t.d_output.View();
  a.d_logsumexp = t.d_logsumexp.View();
  a.d_q = t.d_q.View();
  a.d_k = t.d_k.View();
  a.d_v = t.d_v.View();
  a.d_bias = t.d_bias.View();
  a.d_extra_logit = t.d_extra_logit.View();
  return a;
}

// The logits of one query and what they become.
struct AttentionRow {
  explicit AttentionRow(int64_t keys)
      : logit(keys, -kInf), slope(keys, 1), factor(keys, 1) {}
  std::vector<double> logit, slope, factor;
  double logsumexp = -kInf;
  double extra = -kInf;
};

inline AttentionRow LogitsOf(const AttentionCase& c, const AttentionTensors& t,
                             const CpuAttention& a, Index index) {
  AttentionRow row(c.memory);
  const int64_t position =
      c.length_offset + index[3] +
      (t.offset.given() ? static_cast<int64_t>(t.offset.Get(index)) : 0);
  double max = -kInf;
  for (index[4] = 0; index[4] < c.memory; ++index[4]) {
    const int64_t j = index[4], key = c.memory_offset + j;
    if (c.dropout > 0) {
      int64_t element = (c.length_offset + index[3]) * a.length_stride + key;
      for (int i = 0; i < 3; ++i) {
        element += (a.outer[i].offset + index[i]) * a.outer[i].global_stride;
      }
      const float number =
          UniformFromWord(PhiloxAt(kSeed, 77, kStep, element).word[0]);
      const double threshold = std::ceil(c.dropout * 0x1p24) * 0x1p-24;
      row.factor[j] = number >= threshold ? 1 / (1 - c.dropout) : 0;
    }
    if (c.causal && key > position) continue;
    if (c.window > 0 && key <= position - c.window) continue;
    if (t.mask.given() && t.mask.Get(index) == 0) continue;
    double sum = 0;
    for (index[5] = 0; index[5] < c.depth_kv; ++index[5]) {
      sum += t.q.Get(index) * t.k.Get(index);
    }
    index[5] = 0;
    sum *= c.scale;
    if (c.soft_cap > 0) {
      const double tanh = std::tanh(sum / c.soft_cap);
      sum = c.soft_cap * tanh;
      row.slope[j] = 1 - tanh * tanh;
    }
    if (t.bias.given()) sum += t.bias.Get(index);
    row.logit[j] = sum;
    max = std::max(max, sum);
  }
  index[4] = 0;
  if (t.extra_logit.given()) row.extra = t.extra_logit.Get(index);
  max = std::max(max, row.extra);
  if (max == -kInf) return row;
  double sum = std::exp(row.extra - max);
  for (const double logit : row.logit) sum += std::exp(logit - max);
  row.logsumexp = max + std::log(sum);
  return row;
}

inline double WeightOf(double logit, double logsumexp) {
  return logit == -kInf ? 0 : std::exp(logit - logsumexp);
}

}  // namespace mtf::cpu

#endif  // TESTS_BACKENDS_CPU_ATTENTION_CASE_H_
