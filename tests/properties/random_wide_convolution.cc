// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "nn/layers/batch_norm.h"
#include "nn/layers/layer_norm.h"
#include "ops/convolution.h"
#include "ops/elementwise.h"
#include "ops/pool.h"
#include "ops/reshape.h"
#include "tests/properties/image_maker.h"
#include "tests/properties/random_case.h"

namespace mtf::testing {
namespace {

// The most products that the oracle adds up for a convolution.
constexpr int64_t kMostProducts = 1 << 20;

// Draws up to three layers of an image with 16 to 64 channels.
class WideMaker : public ImageMaker {
 public:
  WideMaker(uint64_t seed, RandomProgram& program) : ImageMaker(seed, program) {
    const int dtype = Int(0, 4);
    dtype_ = dtype < 3 ? kFloat32 : dtype == 3 ? kBFloat16 : kFloat16;
    // Up to three layers, each with an error of a few roundings.
    if (dtype_ != kFloat32) {
      program.tolerance = dtype_ == kBFloat16 ? 0x1p-5 : 0x1p-8;
    }
  }

  void Make() {
    Tensor x = Cast(Image(), dtype_);
    exact_ = x;
    const int layers = Int(1, 3);
    for (int i = 0; i < layers; ++i) x = Layer(i, x);
    program_.fetches = {x};
    AddLoss(Cast(x, kFloat32), /*fetch_loss=*/false);
  }

 private:
  // Whole vectors, and the numbers around them.
  int64_t Channels() {
    constexpr std::array<int64_t, 8> kSizes = {16, 17, 24, 31, 32, 33, 48, 64};
    return kSizes[Int(0, kSizes.size() - 1)];
  }
  // Mostly even numbers, because even shards take the fast paths.
  int64_t Spatial(int64_t most) {
    const int64_t size = Int(1, static_cast<int>(most));
    return size > 1 && Chance(0.7) ? size / 2 * 2 : size;
  }

  // [batch, spatial..., groups, channels], often without groups or batch.
  Tensor Image() {
    names_ = {"height", "width", "depth"};
    names_.resize(Chance(0.6) ? 2 : Int(1, 3));
    std::vector<Dimension> dims;
    // Some are large enough for sums over a thousand rows and more.
    const bool is_large = Chance(0.3);
    if (is_large || Chance(0.8)) dims.push_back({"batch", Int(1, 4)});
    constexpr std::array<int64_t, 3> kMost = {40, 9, 4};
    constexpr std::array<int64_t, 3> kMostOfLarge = {1024, 28, 9};
    const size_t rank = names_.size() - 1;
    for (const std::string& name : names_) {
      dims.push_back({name, is_large ? kMostOfLarge[rank] - Int(0, 3)
                                     : Spatial(kMost[rank])});
    }
    if (Chance(0.2)) dims.push_back({"groups", Int(2, 3)});
    dims.push_back({"channels", Channels()});
    if (Chance(0.1)) std::shuffle(dims.begin(), dims.end(), random_);
    return Float("x", Shape(std::move(dims)));
  }

  WindowOptions Options(int64_t size, int64_t window) {
    WindowOptions options;
    if (Chance(0.3)) options.stride = Int(2, 3);
    if (Chance(0.3)) options.dilation = 2;
    const int64_t span = (window - 1) * options.dilation + 1;
    const int kind = Int(0, 3);
    if (kind == 2 && span <= size) options.padding = WindowPadding::kValid;
    if (kind == 3) PadExplicitly(size, span, options);
    return options;
  }

  Tensor Layer(int i, Tensor x) {
    const int kind = Int(0, 11);
    if (kind < 6) return Convolve(i, x);
    if (kind < 9) return Pool(x);
    const Dimension channels = x.dim("channels");
    if (kind == 9) {
      return nn::LayerNorm(
          x, channels,
          {.epsilon = 0.5, .name = absl::StrCat("layer_norm_", i)});
    }
    // The variance of a batch needs two elements.
    if (x.shape().num_elements() == channels.size) return Convolve(i, x);
    return nn::BatchNorm(
        x, channels, {.epsilon = 0.5, .name = absl::StrCat("batch_norm_", i)});
  }

  Tensor Convolve(int i, Tensor x) {
    std::vector<SpatialDimension> spatial;
    std::vector<Dimension> dims;
    const bool is_sum = Chance(0.75);
    const int64_t features = Channels();
    int64_t products = x.shape().num_elements() * (is_sum ? features : 1);
    double terms =
        is_sum ? static_cast<double>(x.shape().SizeOf("channels")) : 1.0;
    for (const std::string& name : names_) {
      // Small images have windows that reach beyond both ends.
      int64_t size = Int(1, Chance(0.2) ? 5 : 3);
      if (products * size > kMostProducts) size = 1;
      products *= size;
      terms *= static_cast<double>(size);
      const std::string window = absl::StrCat("k_", name);
      spatial.push_back({name, window, Options(x.shape().SizeOf(name), size)});
      dims.push_back({window, size});
    }
    if (products > kMostProducts) return Pool(x);
    dims.push_back(x.dim("channels"));
    if (x.shape().Contains("groups") && Chance(0.7)) {
      dims.push_back(x.dim("groups"));
    }
    if (is_sum) dims.push_back({"features", features});
    if (Chance(0.3)) std::shuffle(dims.begin(), dims.end(), random_);
    const Tensor filter =
        Float(absl::StrCat("filter_", i), Shape(std::move(dims)));
    const Tensor w = Cast(filter * (1 / std::sqrt(terms)), dtype_);
    if (!is_sum) return Convolution(x, w, spatial, {});
    const Tensor y = Convolution(x, w, spatial, {x.dim("channels")});
    return Rename(y, "features", "channels");
  }

  Tensor Pool(Tensor x) {
    // Maxima may depend on rounding unless the image is as it was.
    const bool is_max = SameTensor(x, exact_) && Chance(0.7);
    std::vector<Dimension> windows;
    PoolOptions pool;
    for (const std::string& name : names_) {
      if (Chance(0.3)) continue;
      const int64_t size = x.shape().SizeOf(name);
      windows.push_back({name, std::min<int64_t>(size, Int(1, 3))});
    }
    if (windows.empty()) windows.push_back({names_[0], 1});
    if (Chance(0.5)) pool.stride = Int(1, 2);
    // Every window has an element.
    if (Chance(0.4)) pool.padding = WindowPadding::kSame;
    if (is_max) return MaxPool(x, Shape(std::move(windows)), pool);
    pool.count_padding = Chance(0.5);
    return AveragePool(x, Shape(std::move(windows)), pool);
  }

  DType dtype_ = kFloat32;
  std::vector<std::string> names_;  // of spatial dimensions
  Tensor exact_;                    // equal in the oracle and on devices
};

}  // namespace

RandomProgram MakeRandomWideConvolution(uint64_t seed) {
  RandomProgram program;
  program.graph = std::make_unique<Graph>();
  WideMaker(seed, program).Make();
  return program;
}

}  // namespace mtf::testing
