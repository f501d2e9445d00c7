// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/windows/depthwise.h"

#include <algorithm>
#include <cstdint>

#include "absl/algorithm/container.h"
#include "backends/cpu/rounding.h"
#include "backends/cpu/scratch.h"
#include "backends/cpu/threads.h"
#include "backends/cpu/vector_functions.h"
#include "backends/cpu/windows/depthwise_loops.h"

namespace mtf::cpu {
namespace {

using Computes = ConvolutionSpec::Computes;

// Minimum number of products per thread.
constexpr int64_t kProducts = 1 << 17;
// The most parts of the batch whose gradients of the filter are added up.
constexpr int64_t kMostParts = 16;

PoolWindows WindowsOf(const ConvolutionSpec::Spatial& dim) {
  PoolWindows windows;
  windows.line = dim.input;
  windows.windows = dim.output;
  windows.window = dim.window;
  windows.stride = dim.stride;
  windows.dilation = dim.dilation;
  windows.before = dim.before;
  return windows;
}

// The windows of the gradient that an element of the input reads, in reverse
// order. Strides are 1.
PoolWindows Transpose(PoolWindows windows) {
  std::swap(windows.line, windows.windows);
  windows.before = (windows.window - 1) * windows.dilation - windows.before;
  return windows;
}

DepthwiseShape ShapeOf(const ConvolutionSpec& spec) {
  DepthwiseShape shape;
  shape.channels = spec.groups;
  shape.columns = WindowsOf(spec.spatial.back());
  shape.column_stride = spec.filter_strides.back();
  if (spec.spatial.size() == 2) {
    shape.rows = WindowsOf(spec.spatial[0]);
    shape.row_stride = spec.filter_strides[spec.filter_strides.size() - 2];
  } else {
    shape.rows.line = shape.rows.windows = shape.rows.window = 1;
  }
  return shape;
}

// A convolution or the gradient of its input.
class DepthwiseKernel : public Kernel {
 public:
  DepthwiseKernel(const DepthwiseShape& shape, int64_t batch,
                  const float* images, const float* filter, float* results)
      : shape_(shape),
        batch_(batch),
        images_(images),
        filter_(filter),
        results_(results) {}

  void Run(StepContext&) override {
    const int64_t rows = shape_.rows.windows;
    const int64_t elements = shape_.columns.windows * shape_.channels;
    const int64_t image =
        shape_.rows.line * shape_.columns.line * shape_.channels;
    ParallelFor(batch_ * rows, CeilDivide(kProducts, elements * shape_.taps()),
                [&](int64_t begin, int64_t end) {
                  for (int64_t i = begin; i < end; ++i) {
                    ConvolveRow(shape_, images_ + i / rows * image, filter_,
                                i % rows, results_ + i * elements);
                  }
                });
  }

 private:
  const DepthwiseShape shape_;
  const int64_t batch_;
  const float *const images_, *const filter_;
  float* const results_;
};

// The gradient of the filter: the sum of those that parts of the batch give.
class DepthwiseFilterKernel : public Kernel {
 public:
  DepthwiseFilterKernel(const DepthwiseShape& shape, int64_t batch,
                        const float* images, const float* gradients,
                        float* filter)
      : shape_(shape),
        rows_(batch * shape.rows.windows),
        images_(images),
        gradients_(gradients),
        filter_(filter) {
    const int64_t products =
        rows_ * shape.columns.windows * shape.channels * shape.taps();
    parts_ = std::clamp<int64_t>(products / kProducts, 1,
                                 std::min(kMostParts, rows_));
  }

  void Run(StepContext&) override {
    const int64_t elements = shape_.taps() * shape_.channels;
    auto* const sums = static_cast<float*>(ThreadScratch(
        ScratchUse::kKernel, parts_ * elements * int64_t{sizeof(float)}));
    ParallelFor(parts_, 1, [&](int64_t begin, int64_t end) {
      for (int64_t part = begin; part < end; ++part) {
        float* const sum = sums + part * elements;
        std::fill(sum, sum + elements, 0.0f);
        AddRows(rows_ * part / parts_, rows_ * (part + 1) / parts_, sum);
      }
    });
    for (int64_t part = 1; part < parts_; ++part) {
      AccumulateFloats(ReduceKind::kSum, sums + part * elements, sums,
                       elements);
    }
    for (int64_t i = 0; i < shape_.rows.window; ++i) {
      for (int64_t j = 0; j < shape_.columns.window; ++j) {
        const float* const from =
            sums + (i * shape_.columns.window + j) * shape_.channels;
        std::copy(from, from + shape_.channels,
                  filter_ + i * shape_.row_stride + j * shape_.column_stride);
      }
    }
  }

 private:
  // Rows [begin, end) of the gradients of all images.
  void AddRows(int64_t begin, int64_t end, float* sums) const {
    const int64_t rows = shape_.rows.windows;
    const int64_t image =
        shape_.rows.line * shape_.columns.line * shape_.channels;
    for (int64_t i = begin; i < end; ++i) {
      AddFilterGradientOfRow(
          shape_, images_ + i / rows * image,
          gradients_ + i * shape_.columns.windows * shape_.channels, i % rows,
          sums);
    }
  }

  const DepthwiseShape shape_;
  const int64_t rows_;  // of all images
  int64_t parts_ = 1;
  const float *const images_, *const gradients_;
  float* const filter_;
};

}  // namespace

bool IsDepthwise(const ConvolutionSpec& spec) {
  return spec.inputs == 1 && spec.outputs == 1 && spec.groups >= kLanes &&
         spec.spatial.size() <= 2 && spec.filter_strides[0] == 1 &&
         (spec.computes != Computes::kInput ||
          absl::c_all_of(spec.spatial, [](const ConvolutionSpec::Spatial& dim) {
            return dim.stride == 1;
          }));
}

std::unique_ptr<Kernel> PrepareDepthwise(const ConvolutionSpec& spec,
                                         void* input, void* filter,
                                         void* output) {
  DepthwiseShape shape = ShapeOf(spec);
  auto* const x = static_cast<float*>(input);
  auto* const w = static_cast<float*>(filter);
  auto* const y = static_cast<float*>(output);
  switch (spec.computes) {
    case Computes::kOutput:
      return std::make_unique<DepthwiseKernel>(shape, spec.batch, x, w, y);
    case Computes::kFilter:
      return std::make_unique<DepthwiseFilterKernel>(shape, spec.batch, x, y,
                                                     w);
    case Computes::kInput:
      break;
  }
  // The filter from its last element on.
  const float* const last = w + (shape.rows.window - 1) * shape.row_stride +
                            (shape.columns.window - 1) * shape.column_stride;
  shape.rows = Transpose(shape.rows);
  shape.columns = Transpose(shape.columns);
  shape.row_stride = -shape.row_stride;
  shape.column_stride = -shape.column_stride;
  return std::make_unique<DepthwiseKernel>(shape, spec.batch, y, last, x);
}

}  // namespace mtf::cpu
