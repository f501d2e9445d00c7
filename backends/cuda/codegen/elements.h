// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_CUDA_CODEGEN_ELEMENTS_H_
#define BACKENDS_CUDA_CODEGEN_ELEMENTS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "backends/backend.h"
#include "backends/cuda/codegen/kernel_text.h"
#include "backends/cuda/codegen/kernel_writer.h"
#include "backends/cuda/codegen/loop_nest.h"
#include "backends/index_space.h"
#include "mtf/map_expression.h"

namespace mtf::cuda {

// Stride of `value` along `dimension`, 0 if it lacks the dimension.
int64_t StrideAlong(const BoundValue& value, const std::string& dimension);

// Writes the statements that read the operands of an expression at the current
// indices of some loop nests and evaluate it there, for one element or for a
// pack of `width` neighbours along the innermost loop of the last nest.
//
//   Elements elements(writer, expression, operands, space);
//   LoopNest nest = ...;                        // operands are arrays 0..
//   elements.SetNests({&nest});
//   const int width = elements.Width(...);
//   writer.Add(elements.Reads("    ", width));  // const Pack<float, 4> p0 =
//   .. const StepText steps = elements.Steps("      ", "j");
class Elements {
 public:
  Elements(KernelWriter& writer, const MapExpression& expression,
           absl::Span<const BoundValue> operands,
           absl::Span<const SpaceDimension> space);

  // Whether the expression has an iota along `dimension`.
  bool HasIota(const std::string& dimension) const {
    return offsets_.count(dimension) > 0;
  }
  // In every nest, arrays 0 to the number of operands are the operands.
  void SetNests(std::vector<const LoopNest*> nests) {
    nests_ = std::move(nests);
  }
  // Takes operand `i` from the register `text`, not from memory.
  void SetRegister(int i, std::string text) { registers_[i] = std::move(text); }

  // The widest pack that all operands and the `more` arrays, which are accessed
  // contiguously along the last nest, allow.
  struct Array {
    int number;        // in the nests
    const void* data;  // its memory
    int64_t size;      // of an element, in bytes
  };
  int Width(const std::vector<Array>& more) const;

  // "x0 + i * 12 + o": offset of an array's element at the current indices.
  std::string Offset(int array) const;
  // Statements that read `width` neighbours of each operand.
  std::string Reads(absl::string_view indent, int width) const;
  // The same in two steps: Declarations declares registers for `shares` packs,
  // ReadsInto reads pack number s. Steps then evaluates pack s.
  std::string Declarations(absl::string_view indent, int width,
                           int shares) const;
  std::string ReadsInto(absl::string_view indent) const;
  // Bytes of operands that a thread reads per pack, not counting operands that
  // are the same for neighbouring packs.
  int64_t BytesOfPack(int width) const;
  // Statements that evaluate neighbour `j` (a number or a variable; "" for
  // width 1).
  StepText Steps(absl::string_view indent, absl::string_view j) const;

 private:
  enum class Access { kUniform, kPacked, kStrided };
  Access AccessOf(int operand, int width) const;
  bool IsRead(int operand) const;
  // The type in which an operand's element is held after reading, and its
  // value.
  std::string ReadType(int operand) const;
  std::string ReadValue(int operand) const;
  std::string IotaText(const std::string& dimension, absl::string_view j) const;

  KernelWriter& writer_;
  const MapExpression& expression_;
  std::vector<BoundValue> operands_;
  std::vector<std::string> parameters_;         // "" if unused
  std::map<std::string, std::string> offsets_;  // by dimension: parameter or ""
  std::map<int, std::string> registers_;
  std::vector<const LoopNest*> nests_;
  // As in the last call of Reads or Declarations.
  mutable int width_ = 1;
  mutable absl::string_view share_;  // "[s]" or ""
};

}  // namespace mtf::cuda

#endif  // BACKENDS_CUDA_CODEGEN_ELEMENTS_H_
