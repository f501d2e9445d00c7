// SPDX-License-Identifier: Apache-2.0
#include "nn/layers/group_norm.h"

#include "absl/strings/str_cat.h"
#include "mtf/errors.h"
#include "nn/layers/layer.h"
#include "nn/layers/layer_scope.h"
#include "nn/layers/parameter.h"
#include "ops/checks.h"
#include "ops/constant.h"
#include "ops/elementwise.h"
#include "ops/reduce.h"
#include "ops/reshape.h"

namespace mtf::nn {
namespace {

absl::Status Check(Tensor x, const Dimension& channels, int64_t groups,
                   const Shape& spatial, double epsilon) {
  MTF_RETURN_IF_ERROR(internal::CheckFloat(x, "group_norm"));
  MTF_RETURN_IF_ERROR(internal::CheckDimension(x, channels));
  for (const Dimension& dim : spatial) {
    MTF_RETURN_IF_ERROR(internal::CheckDimension(x, dim));
  }
  if (spatial.Contains(channels.name)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "\"", channels.name, "\" is both the channels and a spatial dimension",
        DescribeInputs({x})));
  }
  MTF_RETURN_IF_ERROR(spatial.Validate());
  if (groups < 1 || channels.size % groups != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        groups, " groups do not divide dimension \"", channels.name,
        "\" of size ", channels.size, DescribeInputs({x})));
  }
  return mtf::internal::CheckPositive(".epsilon", epsilon);
}

// Means over `spatial` and the channels of each group.
class GroupMean {
 public:
  GroupMean(const Dimension& channels, int64_t groups, const Shape& spatial)
      : channels_(channels),
        groups_{channels.name, groups},
        of_group_{absl::StrCat(channels.name, "_in_group"),
                  channels.size / groups},
        spatial_(spatial) {}

  // The mean, repeated for each channel of its group. Sums each channel first:
  // only these sums are regrouped, so `x` stays as it is sharded.
  Tensor operator()(Tensor x) const {
    const Tensor of_channels = MeanOver(x, spatial_);
    const Tensor split =
        SplitDimension(of_channels, channels_.name, {groups_, of_group_});
    const Tensor mean = Broadcast(MeanOver(split, {of_group_}), split.shape());
    return MergeDimensions(mean, {groups_.name, of_group_.name},
                           channels_.name);
  }

 private:
  const Dimension channels_, groups_, of_group_;
  const Shape spatial_;
};

}  // namespace

Tensor GroupNorm(Tensor x, const Dimension& channels, int64_t groups,
                 const Shape& spatial, const GroupNormOptions& options,
                 std::source_location location) {
  if (!x.valid()) return {};
  Graph& graph = x.graph();
  LayerScope layer(graph, options.name, location);
  const absl::Status status =
      Check(x, channels, groups, spatial, options.epsilon);
  if (!status.ok()) {
    return graph.Fail(status,
                      internal::DescribeLayer("group_norm", options.name),
                      location, x.shape(), x.dtype());
  }
  const GroupMean mean_of(channels, groups, spatial);
  const Tensor wide = internal::To(kFloat32, x);
  const Tensor centered = wide - mean_of(wide);
  Tensor factor = Rsqrt(mean_of(Square(centered)) + options.epsilon);
  const Shape parameter = {channels};
  if (options.scale) {
    factor = factor * Parameter(graph, "scale",
                                Ones(graph, kFloat32, parameter), kFloat32);
  }
  Tensor y = centered * factor;
  if (options.bias) {
    y = y +
        Parameter(graph, "bias", Zeros(graph, kFloat32, parameter), kFloat32);
  }
  return internal::To(ActivationDType(x), y);
}

}  // namespace mtf::nn
