// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "nn/layers/batch_norm.h"
#include "nn/layers/group_norm.h"
#include "ops/convolution.h"
#include "ops/elementwise.h"
#include "ops/pool.h"
#include "ops/reshape.h"
#include "tests/properties/image_maker.h"
#include "tests/properties/random_case.h"

namespace mtf::testing {
namespace {

// Draws a few convolutions, poolings and norms of an image.
class ConvolutionMaker : public ImageMaker {
 public:
  ConvolutionMaker(uint64_t seed, RandomProgram& program)
      : ImageMaker(seed, program) {
    if (Chance(0.7)) outer_.push_back({"batch", Size(4)});
    if (Chance(0.4)) outer_.push_back({"groups", Size(3)});
    channels_ = {"channels", Size(4)};
    names_ = {"height", "width", "depth"};
    names_.resize(Int(1, 3));
  }

  void Make() {
    // With groups before the channels, convolutions are those of libraries.
    const bool is_plain = Chance(0.6);
    std::vector<Dimension> dims = outer_, groups;
    if (is_plain && !dims.empty() && dims.back().name == "groups") {
      groups = {dims.back()};
      dims.pop_back();
    }
    for (const std::string& name : names_) {
      dims.push_back({name, Size(names_.size() == 3 ? 4 : 9)});
    }
    dims.insert(dims.end(), groups.begin(), groups.end());
    dims.push_back(channels_);
    Tensor x = is_plain ? Float("x", Shape(dims)) : Float("x", Shuffled(dims));
    const int layers = Int(1, 3);
    for (int i = 0; i < layers; ++i) x = Layer(i, x);
    program_.fetches = {x};
    AddLoss(x, /*fetch_loss=*/true);
  }

 private:
  int64_t Size(int most) { return Int(1, most); }
  Shape Shuffled(std::vector<Dimension> dims) {
    std::shuffle(dims.begin(), dims.end(), random_);
    return Shape(std::move(dims));
  }

  // Options for windows of `window` elements of a dimension of `size`.
  WindowOptions Options(int64_t size, int64_t window) {
    WindowOptions options{
        .stride = Int(1, 3), .dilation = Int(1, 2), .wrap = Chance(0.1)};
    const int64_t span = (window - 1) * options.dilation + 1;
    const int kind = Int(0, 2);
    if (kind == 1 && span <= size) options.padding = WindowPadding::kValid;
    if (kind == 2) PadExplicitly(size, span, options);
    return options;
  }

  Tensor Layer(int i, Tensor x) {
    switch (Int(0, 6)) {
      case 0:
      case 1:
      case 2:
        return Convolve(i, x);
      case 3:
        return Pool(x);
      case 4: {
        const Dimension channels = x.dim(channels_.name);
        // The variance of a batch needs two elements.
        if (x.shape().num_elements() == channels.size) return Convolve(i, x);
        return nn::BatchNorm(x, channels, {.epsilon = 0.5});
      }
      case 5: {
        const Dimension channels = x.dim(channels_.name);
        return nn::GroupNorm(x, channels, Chance(0.5) ? 1 : channels.size,
                             {x.dim(names_[0])}, {.epsilon = 0.5});
      }
      default:
        return Transposed(i, x);
    }
  }

  // A filter over the windows `spatial` and channels, and the output channels.
  Tensor Filter(int i, Tensor x, const std::vector<SpatialDimension>& spatial,
                bool depthwise) {
    std::vector<Dimension> dims = {x.dim(channels_.name)};
    for (const SpatialDimension& dim : spatial) {
      dims.push_back({dim.window, sizes_[dim.window]});
    }
    if (!depthwise) dims.push_back({"features", Size(4)});
    if (!outer_.empty() && outer_.back().name == "groups" && Chance(0.6)) {
      dims.push_back(outer_.back());
    }
    double terms = 1;
    for (const Dimension& dim : dims) terms *= static_cast<double>(dim.size);
    return Float(absl::StrCat("filter_", i), Shuffled(dims)) *
           (1 / std::sqrt(terms));
  }

  std::vector<SpatialDimension> DrawSpatial(Tensor x) {
    std::vector<SpatialDimension> spatial;
    for (const std::string& name : names_) {
      const std::string window = absl::StrCat("k_", name);
      sizes_[window] = Size(3);
      spatial.push_back(
          {name, window, Options(x.shape().SizeOf(name), sizes_[window])});
    }
    return spatial;
  }

  Tensor Convolve(int i, Tensor x) {
    const std::vector<SpatialDimension> spatial = DrawSpatial(x);
    const bool depthwise = Chance(0.3);
    const Tensor filter = Filter(i, x, spatial, depthwise);
    if (depthwise) return Convolution(x, filter, spatial, {});
    const Tensor y = Convolution(x, filter, spatial, {x.dim(channels_.name)});
    return Rename(y, "features", channels_.name);
  }

  Tensor Transposed(int i, Tensor x) {
    std::vector<SpatialDimension> spatial = DrawSpatial(x);
    for (SpatialDimension& dim : spatial) {
      dim.options = {.stride = Int(1, 2), .dilation = dim.options.dilation};
    }
    if (x.shape().num_elements() > 1500) return Convolve(i, x);
    const Tensor filter = Filter(i, x, spatial, false);
    const Tensor y =
        TransposedConvolution(x, filter, spatial, {x.dim(channels_.name)});
    return Rename(y, "features", channels_.name);
  }

  Tensor Pool(Tensor x) {
    const std::string name =
        names_[Int(0, static_cast<int>(names_.size()) - 1)];
    const int64_t window = Size(3);
    const WindowOptions options = Options(x.shape().SizeOf(name), window);
    const PoolOptions pool = {.stride = options.stride,
                              .dilation = options.dilation,
                              .padding = options.padding,
                              .before = options.before,
                              .after = options.after};
    // Every window needs an element, and maxima that do not depend on rounding.
    const bool is_exact = SameTensor(x, parameters_[0]);
    if (is_exact && options.padding == WindowPadding::kValid) {
      return MaxPool(x, {{name, window}}, pool);
    }
    return AveragePool(x, {{name, window}}, pool);
  }

  std::vector<Dimension> outer_;
  Dimension channels_;
  std::vector<std::string> names_;
  std::map<std::string, int64_t> sizes_;  // of windows
};

}  // namespace

RandomProgram MakeRandomConvolution(uint64_t seed) {
  RandomProgram program;
  program.graph = std::make_unique<Graph>();
  ConvolutionMaker(seed, program).Make();
  return program;
}

}  // namespace mtf::testing
