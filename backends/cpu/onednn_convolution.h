// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_CPU_ONEDNN_CONVOLUTION_H_
#define BACKENDS_CPU_ONEDNN_CONVOLUTION_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "lowering/program/convolution_spec.h"

namespace mtf::cpu::onednn {

// A convolution primitive of oneDNN, or that of a gradient, called by one
// thread. Input and output are used as they are in memory; the filter has a
// layout of the library.
class ConvolutionPrimitive {
 public:
  virtual ~ConvolutionPrimitive() = default;

  // For `images` of the images of `spec`.
  static absl::StatusOr<std::unique_ptr<ConvolutionPrimitive>> Create(
      const ConvolutionSpec& spec, int64_t images);

  // The size of a filter in the layout of the library, a multiple of 64.
  virtual int64_t filter_bytes() const = 0;
  // Convert a filter to this layout, or from it if it is the result.
  virtual void PackFilter(const void* filter, void* packed) = 0;
  virtual void UnpackFilter(const void* packed, void* filter) = 0;

  // Computes one of the three, which spec.computes names, from the others.
  virtual void Run(void* input, void* packed_filter, void* output) = 0;
};

}  // namespace mtf::cpu::onednn

#endif  // BACKENDS_CPU_ONEDNN_CONVOLUTION_H_
