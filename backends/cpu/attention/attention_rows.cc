// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/attention/attention_rows.h"

#include <bit>

#include "backends/cpu/highway_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/attention/attention_rows.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
//
#include "backends/cpu/vector_functions-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace mtf::cpu::HWY_NAMESPACE {
namespace {

constexpr size_t kVectors = kAttentionLanes / hn::MaxLanes(FloatTag());

HWY_INLINE int64_t Lanes() {
  return static_cast<int64_t>(hn::Lanes(FloatTag()));
}

// The floats rounded to bfloat16, to nearest even, in the upper halves of the
// lanes. NaN stays NaN.
HWY_INLINE auto RoundedBits(Vector x) {
  const hn::RebindToUnsigned<FloatTag> du;
  const auto bits = hn::BitCast(du, x);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1u));
  const auto rounded = hn::Add(bits, hn::Add(odd, hn::Set(du, 0x7fffu)));
  const auto quiet = hn::Or(bits, hn::Set(du, 0x400000u));
  const auto is_number = hn::RebindMask(du, hn::Eq(x, x));
  return hn::IfThenElse(is_number, rounded, quiet);
}

// Writes two vectors at a time to one row of a block, rounded if `kRounds`.
template <bool kRounds>
struct RowWriter {
  float* floats;
  BFloat16* rounded;
  HWY_INLINE void operator()(int64_t i, Vector low, Vector high) const {
    if constexpr (kRounds) {
      const hn::Repartition<uint16_t, FloatTag> d16;
      hn::StoreU(hn::ConcatOdd(d16, hn::BitCast(d16, RoundedBits(high)),
                               hn::BitCast(d16, RoundedBits(low))),
                 d16, reinterpret_cast<uint16_t*>(rounded + i));
    } else {
      hn::StoreU(low, FloatTag(), floats + i);
      hn::StoreU(high, FloatTag(), floats + i + Lanes());
    }
  }
  HWY_INLINE void Zero(int64_t begin, int64_t end) const {
    const Vector zero = hn::Zero(FloatTag());
    for (int64_t i = begin; i < end; i += 2 * Lanes()) {
      (*this)(i, zero, zero);
    }
  }
};

void ScaleLogitsImpl(float* logits, int64_t count, float scale) {
  const FloatTag d;
  const Vector factor = hn::Set(d, scale);
  for (int64_t i = 0; i < count; i += Lanes()) {
    hn::StoreU(hn::Mul(hn::LoadU(d, logits + i), factor), d, logits + i);
  }
}

void CapLogitsImpl(float* logits, int64_t count, float scale, float cap,
                   float* slopes) {
  const FloatTag d;
  const Vector factor = hn::Set(d, scale / cap), limit = hn::Set(d, cap);
  for (int64_t i = 0; i < count; i += Lanes()) {
    const Floats t = Tanh(Floats(hn::Mul(hn::LoadU(d, logits + i), factor)));
    hn::StoreU(hn::Mul(t.v, limit), d, logits + i);
    if (slopes != nullptr) {
      hn::StoreU(hn::NegMulAdd(t.v, t.v, hn::Set(d, 1.0f)), d, slopes + i);
    }
  }
}

// Widens the visible columns to multiples of kAttentionLanes.
HWY_INLINE ColumnRange WholeLanes(const ColumnRange& visible) {
  constexpr int64_t kMask = kAttentionLanes - 1;
  if (visible.begin >= visible.end) return {};
  return {visible.begin & ~kMask, (visible.end + kMask) & ~kMask};
}

// The same; hides the logits in between.
HWY_INLINE ColumnRange HideBoundaries(const ColumnRange& visible, float* row) {
  const ColumnRange whole = WholeLanes(visible);
  for (int64_t j = whole.begin; j < visible.begin; ++j) row[j] = kMinusInfinity;
  for (int64_t j = visible.end; j < whole.end; ++j) row[j] = kMinusInfinity;
  return whole;
}

// May ignore NaN, which then appears in the sum of the weights.
HWY_INLINE float MaxOf(const float* row, const ColumnRange& range) {
  const FloatTag d;
  Vector most[kVectors];
  for (Vector& v : most) v = hn::Set(d, kMinusInfinity);
  for (int64_t j = range.begin; j < range.end; j += kAttentionLanes) {
    for (size_t v = 0; v < kVectors; ++v) {
      most[v] = hn::Max(most[v], hn::LoadU(d, row + j + v * Lanes()));
    }
  }
  for (size_t v = 1; v < kVectors; ++v) most[0] = hn::Max(most[0], most[v]);
  return hn::GetLane(hn::MaxOfLanes(d, most[0]));
}

// What is subtracted from the logits: if all so far are -infinity, any number
// gives weights of 0.
HWY_INLINE Vector BaseOf(Vector max) {
  const FloatTag d;
  return hn::IfThenZeroElse(hn::Eq(max, hn::Set(d, kMinusInfinity)), max);
}

// Adds lanes that are 16 apart, then those that are 8 apart, and so on.
HWY_INLINE float SumOf(const Vector* sums) {
  if constexpr (hn::MaxLanes(FloatTag()) == 16) {
    const hn::Half<FloatTag> half;
    const Vector sum = hn::Add(sums[0], sums[1]);
    return hn::GetLane(hn::SumOfLanes(
        half, hn::Add(hn::LowerHalf(half, sum), hn::UpperHalf(half, sum))));
  } else if constexpr (hn::MaxLanes(FloatTag()) == 8) {
    return hn::GetLane(hn::SumOfLanes(
        FloatTag(),
        hn::Add(hn::Add(sums[0], sums[2]), hn::Add(sums[1], sums[3]))));
  } else {
    HWY_ALIGN float wide[kAttentionLanes];
    for (size_t v = 0; v < kVectors; ++v) {
      hn::Store(sums[v], FloatTag(), wide + v * Lanes());
    }
    for (int64_t half = kAttentionLanes / 2; half >= 1; half /= 2) {
      for (int64_t j = 0; j < half; ++j) wide[j] += wide[j + half];
    }
    return wide[0];
  }
}

// Hides the boundaries of the rows and updates the maxima.
void UpdateMax(const LogitBlock& block, const RunningSoftmax& softmax) {
  const FloatTag d;
  for (int64_t i = 0; i < block.rows; ++i) {
    const ColumnRange& visible = block.visible[i];
    float max = kMinusInfinity;
    if (visible.begin < visible.end) {
      float* row = block.logits + i * block.columns;
      max = MaxOf(row, HideBoundaries(visible, row)) * block.scale;
    }
    softmax.correction[i] = max;
  }
  for (int64_t i = 0; i < block.rows; i += Lanes()) {
    const Vector old = hn::Load(d, softmax.max + i);
    const Vector max = hn::Max(old, hn::Load(d, softmax.correction + i));
    hn::Store(max, d, softmax.max + i);
    hn::Store(Exp(Floats(hn::Sub(old, BaseOf(max)))).v, d,
              softmax.correction + i);
  }
}

template <bool kRounds, bool kDrops>
void ForwardRows(const LogitBlock& block, const RunningSoftmax& softmax,
                 BFloat16* rounded) {
  const FloatTag d;
  const Vector scale = hn::Set(d, block.scale);
  for (int64_t i = 0; i < block.rows; ++i) {
    const float* row = block.logits + i * block.columns;
    const RowWriter<kRounds> write = {block.logits + i * block.columns,
                                      rounded + i * block.columns};
    const ColumnRange range = WholeLanes(block.visible[i]);
    const Vector base = BaseOf(hn::Set(d, softmax.max[i]));
    Vector sums[kVectors];
    for (Vector& v : sums) v = hn::Zero(d);
    for (int64_t j = range.begin; j < range.end; j += kAttentionLanes) {
      Vector weights[kVectors];
      for (size_t v = 0; v < kVectors; ++v) {
        const int64_t at = j + static_cast<int64_t>(v) * Lanes();
        weights[v] =
            Exp(Floats(hn::MulSub(hn::LoadU(d, row + at), scale, base))).v;
        sums[v] = hn::Add(sums[v], weights[v]);
        if constexpr (kDrops) {
          weights[v] = hn::Mul(
              weights[v], hn::LoadU(d, block.dropout + i * block.columns + at));
        }
      }
      for (size_t v = 0; v < kVectors; v += 2) {
        write(j + static_cast<int64_t>(v) * Lanes(), weights[v],
              weights[v + 1]);
      }
    }
    write.Zero(0, range.begin);
    write.Zero(range.end, block.columns);
    softmax.sum[i] = softmax.sum[i] * softmax.correction[i] + SumOf(sums);
  }
}

void SoftmaxForwardImpl(const LogitBlock& block, const RunningSoftmax& softmax,
                        BFloat16* rounded) {
  UpdateMax(block, softmax);
  const bool drops = block.dropout != nullptr;
  if (rounded == nullptr) {
    return drops ? ForwardRows<false, true>(block, softmax, rounded)
                 : ForwardRows<false, false>(block, softmax, rounded);
  }
  return drops ? ForwardRows<true, true>(block, softmax, rounded)
               : ForwardRows<true, false>(block, softmax, rounded);
}

// The two rare features of a gradient are one template argument.
template <bool kRounds, bool kDrops, bool kHasExtras>
void BackwardRows(const LogitBlock& block, const SoftmaxGradient& gradient) {
  const FloatTag d;
  const Vector scale = hn::Set(d, block.scale);
  for (int64_t i = 0; i < block.rows; ++i) {
    const int64_t first = i * block.columns;
    float* row = block.logits + first;
    float* d_row = gradient.d_weights + first;
    const RowWriter<kRounds> write = {row, gradient.rounded_weights + first};
    const RowWriter<kRounds> write_d = {d_row,
                                        gradient.rounded_d_logits + first};
    const ColumnRange& visible = block.visible[i];
    ColumnRange range;
    if (visible.begin < visible.end) range = HideBoundaries(visible, row);
    const Vector base = hn::Set(d, -gradient.logsumexp[i]);
    const Vector delta = hn::Set(d, gradient.delta[i]);
    for (int64_t j = range.begin; j < range.end; j += 2 * Lanes()) {
      Vector weights[2], d_logits[2];
      for (int v = 0; v < 2; ++v) {
        const int64_t at = j + v * Lanes();
        const Vector weight =
            Exp(Floats(hn::MulAdd(hn::LoadU(d, row + at), scale, base))).v;
        Vector d_weight = hn::LoadU(d, d_row + at);
        weights[v] = weight;
        if constexpr (kDrops) {
          const Vector factor = hn::LoadU(d, block.dropout + first + at);
          d_weight = hn::Mul(d_weight, factor);
          weights[v] = hn::Mul(weight, factor);
        }
        // A hidden logit has no gradient, even if a factor is not finite.
        const auto hidden = hn::Eq(weight, hn::Zero(d));
        d_logits[v] = hn::IfThenZeroElse(
            hidden, hn::Mul(weight, hn::Sub(d_weight, delta)));
        if constexpr (kHasExtras) {
          if (gradient.d_logits != nullptr) {
            hn::StoreU(d_logits[v], d, gradient.d_logits + first + at);
          }
          if (gradient.slopes != nullptr) {
            const Vector slope = hn::LoadU(d, gradient.slopes + first + at);
            d_logits[v] =
                hn::IfThenZeroElse(hidden, hn::Mul(d_logits[v], slope));
          }
        }
      }
      write(j, weights[0], weights[1]);
      write_d(j, d_logits[0], d_logits[1]);
    }
    for (const RowWriter<kRounds>& writer : {write, write_d}) {
      writer.Zero(0, range.begin);
      writer.Zero(range.end, block.columns);
    }
    if (kHasExtras && gradient.d_logits != nullptr) {
      const RowWriter<false> writer = {gradient.d_logits + first, nullptr};
      writer.Zero(0, range.begin);
      writer.Zero(range.end, block.columns);
    }
  }
}

template <bool kRounds>
void BackwardWith(const LogitBlock& block, const SoftmaxGradient& gradient) {
  const bool drops = block.dropout != nullptr;
  if (gradient.slopes == nullptr && gradient.d_logits == nullptr) {
    return drops ? BackwardRows<kRounds, true, false>(block, gradient)
                 : BackwardRows<kRounds, false, false>(block, gradient);
  }
  return drops ? BackwardRows<kRounds, true, true>(block, gradient)
               : BackwardRows<kRounds, false, true>(block, gradient);
}

void SoftmaxBackwardImpl(const LogitBlock& block,
                         const SoftmaxGradient& gradient) {
  return gradient.rounded_weights == nullptr
             ? BackwardWith<false>(block, gradient)
             : BackwardWith<true>(block, gradient);
}

// Philox4x32-10 as in mtf/philox.h, with each 32-bit word in the lower half of
// a 64-bit lane. The upper halves hold garbage, which MulEven ignores.
void DropoutFactorsImpl(const DropoutStream& stream, uint64_t first,
                        uint64_t stride, int64_t count, float* factors) {
  const hn::ScalableTag<uint64_t> d;
  const hn::Repartition<uint32_t, decltype(d)> d32;
  const auto multiply = [&](auto x, uint32_t by) HWY_ATTR {
    return hn::MulEven(hn::BitCast(d32, x), hn::Set(d32, by));
  };
  const hn::Rebind<uint32_t, decltype(d)> narrow;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  HWY_ALIGN uint64_t steps[hn::MaxLanes(d)];
  for (int64_t j = 0; j < lanes; ++j) steps[j] = j * stride;
  const hn::RebindToSigned<decltype(d)> ds;
  const auto least = hn::Set(ds, int64_t{stream.threshold});
  const auto kept = hn::Set(d, uint64_t{std::bit_cast<uint32_t>(stream.kept)});
  auto* bits = reinterpret_cast<uint32_t*>(factors);
  for (int64_t i = 0; i < count; i += lanes) {
    auto c0 = hn::Add(hn::Set(d, first + i * stride), hn::Load(d, steps));
    auto c1 = hn::ShiftRight<32>(c0);
    auto c2 = hn::Set(d, uint64_t{stream.step});
    auto c3 = hn::Zero(d);
    uint32_t key0 = stream.seed, key1 = stream.stream;
    for (int round = 0; round < 10; ++round) {
      const auto product0 = multiply(c0, 0xD2511F53u);
      const auto product1 = multiply(c2, 0xCD9E8D57u);
      c0 = hn::Xor(hn::Xor(hn::ShiftRight<32>(product1), c1),
                   hn::Set(d, uint64_t{key0}));
      c2 = hn::Xor(hn::Xor(hn::ShiftRight<32>(product0), c3),
                   hn::Set(d, uint64_t{key1}));
      c1 = product1;
      c3 = product0;
      key0 += 0x9E3779B9u;
      key1 += 0xBB67AE85u;
    }
    const auto number = hn::ShiftRight<40>(hn::ShiftLeft<32>(c0));
    // At most 2^24, so that a comparison of signed lanes is right.
    const auto is_dropped = hn::Lt(hn::BitCast(ds, number), least);
    const auto factor = hn::IfThenZeroElse(hn::RebindMask(d, is_dropped), kept);
    hn::StoreU(hn::TruncateTo(narrow, factor), narrow, bits + i);
  }
}

}  // namespace
}  // namespace mtf::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mtf::cpu {

HWY_EXPORT(ScaleLogitsImpl);
HWY_EXPORT(CapLogitsImpl);
HWY_EXPORT(SoftmaxForwardImpl);
HWY_EXPORT(SoftmaxBackwardImpl);
HWY_EXPORT(DropoutFactorsImpl);

void ScaleLogits(float* logits, int64_t count, float scale) {
  HWY_DYNAMIC_DISPATCH(ScaleLogitsImpl)(logits, count, scale);
}

void CapLogits(float* logits, int64_t count, float scale, float cap,
               float* slopes) {
  HWY_DYNAMIC_DISPATCH(CapLogitsImpl)(logits, count, scale, cap, slopes);
}

void SoftmaxForward(const LogitBlock& block, const RunningSoftmax& softmax,
                    BFloat16* rounded) {
  HWY_DYNAMIC_DISPATCH(SoftmaxForwardImpl)(block, softmax, rounded);
}

void SoftmaxBackward(const LogitBlock& block, const SoftmaxGradient& gradient) {
  HWY_DYNAMIC_DISPATCH(SoftmaxBackwardImpl)(block, gradient);
}

void DropoutFactors(const DropoutStream& stream, uint64_t first,
                    uint64_t stride, int64_t count, float* factors) {
  HWY_DYNAMIC_DISPATCH(DropoutFactorsImpl)
  (stream, first, stride, count, factors);
}

}  // namespace mtf::cpu
#endif  // HWY_ONCE
