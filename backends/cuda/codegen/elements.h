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
#include "mtf/map_expression.h"

namespace mtf::cuda {

// A dimension of the space that a kernel runs over.
struct SpaceDimension {
  std::string name;
  int64_t extent = 1;
  int64_t offset = 0;  // the global index of the first, for iotas
};

// Strides of `value` along `dimension`, 0 where it lacks it.
int64_t StrideAlong(const BoundValue& value, const std::string& dimension);

// Writes what an expression is worth at the places of a few loop nests, for one
// element or for a pack of neighbours along the innermost loop of the last one.
//
//   Elements elements(writer, expression, operands, space);
//   LoopNest nest = ...;                          // an array per operand first
//   elements.SetNests({&nest});
//   const int width = elements.Width(...);
//   writer.Add(elements.Reads("    ", width));    // const Pack<float, 4> p0 =
//   .. const StepText steps = elements.Steps("      ", "j");
class Elements {
 public:
  Elements(KernelWriter& writer, const MapExpression& expression,
           absl::Span<const BoundValue> operands,
           absl::Span<const SpaceDimension> space);

  // Whether an iota counts `dimension`.
  bool Counts(const std::string& dimension) const {
    return offsets_.count(dimension) > 0;
  }
  // Arrays 0 to the number of operands of every nest are the operands.
  void SetNests(std::vector<const LoopNest*> nests) {
    nests_ = std::move(nests);
  }
  // Reads operand `i` by `text` instead, a register.
  void SetRegister(int i, std::string text) { given_[i] = std::move(text); }

  // The widest pack for the operands and further arrays that are read or
  // written one behind the other along the last nest: (number of the array,
  // memory, size of an element).
  struct Array {
    int number;
    const void* data;
    int64_t size;
  };
  int Width(const std::vector<Array>& more) const;

  // "x0 + i * 12 + o": where an array is read at the present places.
  std::string Place(int array) const;
  // Statements that read operands at the present places; `width` neighbours.
  std::string Reads(absl::string_view indent, int width) const;
  // The same in two: declarations of room for `shares` packs, and what reads
  // pack number s. Steps then takes pack s.
  std::string Room(absl::string_view indent, int width, int shares) const;
  std::string ReadsInto(absl::string_view indent) const;
  // Bytes that one thread reads of operands for a pack, of what differs between
  // neighbouring packs.
  int64_t BytesOfPack(int width) const;
  // Statements for one of them, `j` (a number or a variable; "" for width 1).
  StepText Steps(absl::string_view indent, absl::string_view j) const;

 private:
  enum class Access { kUniform, kPacked, kStrided };
  Access AccessOf(int operand, int width) const;
  bool IsRead(int operand) const;
  // What memory holds of an operand is kept in: its type, and its value.
  std::string KeptType(int operand) const;
  std::string KeptValue(int operand) const;
  std::string IotaText(const std::string& dimension, absl::string_view j) const;

  KernelWriter& writer_;
  const MapExpression& expression_;
  std::vector<BoundValue> operands_;
  std::vector<std::string> parameters_;         // "" where nothing uses it
  std::map<std::string, std::string> offsets_;  // by dimension: parameter or ""
  std::map<int, std::string> given_;
  std::vector<const LoopNest*> nests_;
  // As the last Reads or Room had it.
  mutable int width_ = 1;
  mutable absl::string_view share_;  // "[s]" or ""
};

}  // namespace mtf::cuda

#endif  // BACKENDS_CUDA_CODEGEN_ELEMENTS_H_
