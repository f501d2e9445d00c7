// SPDX-License-Identifier: Apache-2.0
#include "nn/attention/rotary.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "absl/strings/str_cat.h"
#include "mtf/errors.h"
#include "nn/layers/layer.h"
#include "nn/layers/layer_scope.h"
#include "ops/checks.h"
#include "ops/concat.h"
#include "ops/constant.h"
#include "ops/elementwise.h"
#include "ops/one_hot.h"
#include "ops/reshape.h"
#include "ops/shift.h"
#include "ops/slice.h"

namespace mtf::nn {
namespace {

constexpr absl::string_view kPair = "rotary_pair";

int64_t RotatedElements(const Dimension& d_kv, double fraction) {
  // A fraction such as 0.1 * 3 may be below the number that is meant.
  return static_cast<int64_t>(fraction * static_cast<double>(d_kv.size) + 1e-6);
}

absl::Status CheckPositions(Tensor positions, Tensor x, const Dimension& d_kv,
                            absl::string_view what) {
  if (!positions.valid()) return absl::OkStatus();
  MTF_RETURN_IF_ERROR(mtf::internal::CheckInputs(x.graph(), {positions}));
  MTF_RETURN_IF_ERROR(internal::CheckInteger(positions, what));
  for (const Dimension& dim : positions.shape()) {
    MTF_RETURN_IF_ERROR(internal::CheckDimension(x, dim));
  }
  if (!positions.shape().Contains(d_kv.name)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(what, " have the dimension \"", d_kv.name,
                   "\", which is rotated", DescribeInputs({x, positions})));
}

absl::Status CheckScaling(const RotaryScaling& scaling) {
  const std::pair<const char*, double> options[] = {
      {".scaling.factor", scaling.factor},
      {".scaling.original_length", scaling.original_length},
      {".scaling.low_frequency_factor", scaling.low_frequency_factor},
      {".scaling.high_frequency_factor", scaling.high_frequency_factor},
      {".scaling.beta_slow", scaling.beta_slow},
      {".scaling.beta_fast", scaling.beta_fast},
      {".scaling.attention_factor", scaling.attention_factor.value_or(1)}};
  for (const auto& [name, value] : options) {
    MTF_RETURN_IF_ERROR(mtf::internal::CheckPositive(name, value));
  }
  if (scaling.low_frequency_factor < scaling.high_frequency_factor) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      ".scaling.low_frequency_factor is ", scaling.low_frequency_factor,
      ", not below .high_frequency_factor, ", scaling.high_frequency_factor));
}

absl::Status Check(Tensor x, const Dimension& length, const Dimension& d_kv,
                   const RotaryOptions& options) {
  MTF_RETURN_IF_ERROR(internal::CheckFloat(x, "rotary"));
  MTF_RETURN_IF_ERROR(internal::CheckDimension(x, length));
  MTF_RETURN_IF_ERROR(internal::CheckDimension(x, d_kv));
  if (!(options.base > 1) || !std::isfinite(options.base)) {
    return absl::InvalidArgumentError(
        absl::StrCat(".base is ", options.base, ", not a number above 1"));
  }
  if (!(options.fraction > 0 && options.fraction <= 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat(".fraction is ", options.fraction, ", not in (0, 1]"));
  }
  const int64_t rotated = RotatedElements(d_kv, options.fraction);
  if (rotated % 2 != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("pairs of elements are rotated, but ", rotated, " of the ",
                     d_kv.size, " elements of \"", d_kv.name,
                     "\" is an odd number", DescribeInputs({x}),
                     "\n  help     change .fraction, ", options.fraction));
  }
  MTF_RETURN_IF_ERROR(CheckScaling(options.scaling));
  MTF_RETURN_IF_ERROR(CheckPositions(options.positions, x, d_kv, "positions"));
  return CheckPositions(options.offset, x, d_kv, "offsets");
}

// How much of each frequency is kept; the rest is divided by the factor.
double KeptFraction(double frequency, int64_t pair, int64_t rotated,
                    const RotaryOptions& options) {
  const RotaryScaling& scaling = options.scaling;
  const auto ramp = [](double x, double from, double to) {
    return std::clamp((x - from) / (to - from), 0.0, 1.0);
  };
  if (scaling.rule == RotaryScalingRule::kLinear) return 0;
  if (scaling.rule == RotaryScalingRule::kLlama3) {
    const double periods =
        scaling.original_length * frequency / (2 * std::numbers::pi);
    return ramp(periods, scaling.low_frequency_factor,
                scaling.high_frequency_factor);
  }
  if (scaling.rule != RotaryScalingRule::kYarn) return 1;
  // The index of the pair that has so many periods.
  const auto pair_of = [&](double periods) {
    return static_cast<double>(rotated) / 2 *
           std::log(scaling.original_length /
                    (periods * 2 * std::numbers::pi)) /
           std::log(options.base);
  };
  const double low = std::max(std::floor(pair_of(scaling.beta_fast)), 0.0);
  double high = std::min(std::ceil(pair_of(scaling.beta_slow)),
                         static_cast<double>(rotated - 1));
  if (high == low) high += 0.001;
  return 1 - ramp(static_cast<double>(pair), low, high);
}

double AttentionFactor(const RotaryScaling& scaling) {
  if (scaling.rule != RotaryScalingRule::kYarn) return 1;
  return scaling.attention_factor.value_or(
      scaling.factor <= 1 ? 1 : 0.1 * std::log(scaling.factor) + 1);
}

// The element that is rotated together with each.
Tensor SwapPairs(Tensor x, const Dimension& dim, RotaryPairs pairs) {
  const int64_t half = dim.size / 2;
  if (pairs == RotaryPairs::kHalves) return Shift(x, dim.name, half, true);
  const Tensor split =
      SplitDimension(x, dim.name, {{dim.name, half}, {std::string(kPair), 2}});
  return MergeDimensions(Shift(split, kPair, 1, true),
                         {dim.name, std::string(kPair)}, dim.name);
}

// Rotates all elements of `x` along `dim`.
Tensor Rotate(Tensor x, const Dimension& length, const Dimension& dim,
              const RotaryOptions& options) {
  Graph& graph = x.graph();
  const std::vector<double> of_pairs = RotaryFrequencies(dim.size, options);
  const bool interleaved = options.pairs == RotaryPairs::kInterleaved;
  const double factor = AttentionFactor(options.scaling);
  const int64_t half = dim.size / 2;
  std::vector<double> frequencies, signs;
  for (int64_t i = 0; i < dim.size; ++i) {
    const bool first = interleaved ? i % 2 == 0 : i < half;
    frequencies.push_back(of_pairs[interleaved ? i / 2 : i % half]);
    signs.push_back(first ? -factor : factor);
  }
  Tensor positions = options.positions.valid() ? options.positions
                                               : Range(graph, length, kInt32);
  positions = Cast(positions, kFloat32);
  if (options.offset.valid()) {
    positions = positions + Cast(options.offset, kFloat32);
  }
  const Tensor angles =
      positions * Constant(graph, frequencies, kFloat32, {dim});
  const Tensor sines = Sin(angles) * Constant(graph, signs, kFloat32, {dim});
  return x * (Cos(angles) * factor) + SwapPairs(x, dim, options.pairs) * sines;
}

}  // namespace

std::vector<double> RotaryFrequencies(int64_t rotated,
                                      const RotaryOptions& options) {
  const RotaryScaling& scaling = options.scaling;
  const auto n = static_cast<double>(rotated);
  double base = options.base;
  if (scaling.rule == RotaryScalingRule::kNtk && rotated > 2) {
    base *= std::pow(scaling.factor, n / (n - 2));
  }
  std::vector<double> frequencies;
  for (int64_t i = 0; i < rotated / 2; ++i) {
    const double frequency = std::pow(base, -2 * static_cast<double>(i) / n);
    const double kept = KeptFraction(frequency, i, rotated, options);
    frequencies.push_back(frequency * (kept + (1 - kept) / scaling.factor));
  }
  return frequencies;
}

Tensor RotaryEmbedding(Tensor x, Dimension length, Dimension d_kv,
                       RotaryOptions options, std::source_location location) {
  if (!x.valid()) return {};
  Graph& graph = x.graph();
  LayerScope layer(graph, options.name, location);
  const absl::Status status = Check(x, length, d_kv, options);
  if (!status.ok()) {
    return graph.Fail(status, internal::DescribeLayer("rotary", options.name),
                      location, x.shape(), x.dtype());
  }
  const int64_t rotated = RotatedElements(d_kv, options.fraction);
  if (rotated == 0) return x;
  const Tensor wide = internal::To(kFloat32, x);
  if (rotated == d_kv.size) {
    return internal::To(x.dtype(), Rotate(wide, length, d_kv, options));
  }
  const Tensor first = Rotate(Slice(wide, d_kv.name, 0, rotated), length,
                              {d_kv.name, rotated}, options);
  const Tensor rest = Slice(wide, d_kv.name, rotated, d_kv.size - rotated);
  return internal::To(x.dtype(), Concat({first, rest}, d_kv.name));
}

}  // namespace mtf::nn
