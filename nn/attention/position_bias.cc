// SPDX-License-Identifier: Apache-2.0
#include "nn/attention/position_bias.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "mtf/errors.h"
#include "nn/layers/embedding.h"
#include "nn/layers/layer.h"
#include "nn/layers/layer_scope.h"
#include "ops/checks.h"
#include "ops/constant.h"
#include "ops/elementwise.h"
#include "ops/gather.h"
#include "ops/reshape.h"

namespace mtf::nn {
namespace {

constexpr absl::string_view kDistance = "distance";
constexpr absl::string_view kBuckets = "buckets";

absl::Status CheckPositions(Tensor positions, Tensor memory_positions) {
  MTF_RETURN_IF_ERROR(mtf::internal::CheckInputs(
      positions.graph(), {positions, memory_positions}));
  MTF_RETURN_IF_ERROR(internal::CheckInteger(positions, "positions"));
  MTF_RETURN_IF_ERROR(internal::CheckInteger(memory_positions, "positions"));
  return mtf::internal::CheckSizes({positions, memory_positions});
}

// The number of buckets for one direction.
int64_t BucketsOf(const RelativePositionOptions& options) {
  return options.bidirectional ? options.buckets / 2 : options.buckets;
}

absl::Status CheckBuckets(const RelativePositionOptions& options) {
  const int64_t of_direction = BucketsOf(options);
  if (options.buckets % 2 != 0 || of_direction < 2) {
    return absl::InvalidArgumentError(absl::StrCat(
        ".buckets is ", options.buckets, ", not an even number of at least ",
        options.bidirectional ? 4 : 2));
  }
  if (options.max_distance > of_direction / 2) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      ".max_distance is ", options.max_distance, ", but the distances below ",
      of_direction / 2, " have a bucket each"));
}

// The bucket of each distance up to the maximum.
std::vector<double> BucketTable(const RelativePositionOptions& options) {
  const int64_t buckets = BucketsOf(options), single = buckets / 2;
  std::vector<double> table;
  for (int64_t distance = 0; distance <= options.max_distance; ++distance) {
    if (distance < single) {
      table.push_back(static_cast<double>(distance));
      continue;
    }
    const auto of_single = [&](int64_t d) {
      return std::log(static_cast<double>(d) / static_cast<double>(single));
    };
    // At a distance where a bucket begins, rounding must not give the one
    // before it.
    const double bucket =
        static_cast<double>(single) +
        std::floor(of_single(distance) / of_single(options.max_distance) *
                       static_cast<double>(buckets - single) +
                   1e-9);
    table.push_back(std::min(bucket, static_cast<double>(buckets - 1)));
  }
  return table;
}

// RelativePositionBuckets without checks.
Tensor Buckets(Tensor positions, Tensor memory_positions,
               const RelativePositionOptions& options) {
  const Tensor before =
      Cast(positions, kInt32) - Cast(memory_positions, kInt32);
  const Tensor distance =
      options.bidirectional ? Abs(before) : Maximum(before, 0.0);
  const Tensor table =
      Constant(positions.graph(), BucketTable(options), kInt32,
               {{std::string(kDistance), options.max_distance + 1}});
  const Tensor bucket = Gather(
      table, Minimum(distance, static_cast<double>(options.max_distance)),
      kDistance);
  if (!options.bidirectional) return bucket;
  return bucket + Select(Less(before, 0.0),
                         Like(bucket, static_cast<double>(BucketsOf(options))),
                         0.0);
}

Shape ResultShape(Tensor positions, Tensor memory_positions,
                  const Shape& first = {}) {
  return internal::Join(
      first, mtf::internal::BroadcastShape({positions, memory_positions}));
}

absl::Status CheckLacksHeads(Tensor positions, const Dimension& heads) {
  if (!positions.shape().Contains(heads.name)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "the positions \"", positions.name(), "\" have the dimension \"",
      heads.name, "\" of the heads", DescribeInputs({positions})));
}

// Checks the operands of a bias for each head.
absl::Status CheckHeads(Tensor positions, Tensor memory_positions,
                        const Dimension& heads) {
  MTF_RETURN_IF_ERROR(CheckPositions(positions, memory_positions));
  MTF_RETURN_IF_ERROR(CheckLacksHeads(positions, heads));
  return CheckLacksHeads(memory_positions, heads);
}

}  // namespace

Tensor RelativePositionBuckets(Tensor positions, Tensor memory_positions,
                               RelativePositionOptions options,
                               std::source_location location) {
  Graph* graph = mtf::internal::GraphOf({positions, memory_positions});
  if (graph == nullptr) return {};
  LayerScope layer(*graph, "relative_position_buckets", location);
  absl::Status status =
      mtf::internal::CheckInputs(*graph, {positions, memory_positions});
  if (!status.ok()) {
    return graph->Fail(status, "relative_position_buckets", location, {},
                       kInt32);
  }
  status = CheckPositions(positions, memory_positions);
  if (status.ok()) status = CheckBuckets(options);
  if (!status.ok()) {
    return graph->Fail(status, "relative_position_buckets", location,
                       ResultShape(positions, memory_positions), kInt32);
  }
  return Buckets(positions, memory_positions, options);
}

Tensor RelativePositionBias(Tensor positions, Tensor memory_positions,
                            Dimension heads, RelativePositionOptions options,
                            std::source_location location) {
  Graph* graph = mtf::internal::GraphOf({positions, memory_positions});
  if (graph == nullptr) return {};
  LayerScope layer(*graph, options.name, location);
  const std::string what =
      internal::DescribeLayer("relative_position_bias", options.name);
  absl::Status status =
      mtf::internal::CheckInputs(*graph, {positions, memory_positions});
  if (!status.ok()) return graph->Fail(status, what, location);
  const Shape result =
      ResultShape(positions, memory_positions, options.each.With(heads));
  status = CheckHeads(positions, memory_positions, heads);
  if (status.ok()) status = CheckBuckets(options);
  if (!status.ok()) return graph->Fail(status, what, location, result);
  const Tensor table = EmbeddingTable(
      *graph, {std::string(kBuckets), options.buckets}, heads,
      {.stddev = options.stddev, .each = options.each, .name = "embedding"});
  const Tensor bias =
      Gather(internal::To(kFloat32, table),
             Buckets(positions, memory_positions, options), kBuckets);
  return Transpose(bias, result);
}

std::vector<double> AlibiSlopes(int64_t heads) {
  int64_t power = 1;
  while (2 * power <= heads) power *= 2;
  std::vector<double> slopes;
  for (int64_t i = 1; i <= power; ++i) {
    slopes.push_back(
        std::exp2(-8.0 * static_cast<double>(i) / static_cast<double>(power)));
  }
  for (int64_t i = 1; i <= heads - power; ++i) {
    slopes.push_back(std::exp2(-8.0 * static_cast<double>(2 * i - 1) /
                               static_cast<double>(2 * power)));
  }
  return slopes;
}

Tensor AlibiBias(Tensor positions, Tensor memory_positions, Dimension heads,
                 std::source_location location) {
  Graph* graph = mtf::internal::GraphOf({positions, memory_positions});
  if (graph == nullptr) return {};
  LayerScope layer(*graph, "alibi", location);
  absl::Status status =
      mtf::internal::CheckInputs(*graph, {positions, memory_positions});
  if (!status.ok()) return graph->Fail(status, "alibi", location);
  status = CheckHeads(positions, memory_positions, heads);
  if (status.ok()) status = Shape({heads}).Validate();
  if (!status.ok()) {
    return graph->Fail(status, "alibi", location,
                       ResultShape(positions, memory_positions, {heads}));
  }
  const Tensor slopes =
      Constant(*graph, AlibiSlopes(heads.size), kFloat32, {heads});
  const Tensor distance =
      Abs(Cast(positions, kInt32) - Cast(memory_positions, kInt32));
  return slopes * -Cast(distance, kFloat32);
}

}  // namespace mtf::nn
