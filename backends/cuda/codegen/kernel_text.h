// SPDX-License-Identifier: Apache-2.0
//
// The vocabulary of generated kernels: how elements rest in memory, what they
// are in registers, and the functions of mtf/scalar_functions.h over those. It
// is CUDA C++ without a header, so NVRTC needs no include path.
//
//   in memory   float  BF16  F16  int  i64  Bool      (StorageType)
//   registers   F      F     F    I    I    bool      F is a float whose every
//               operation rounds by itself (nothing is contracted), so that a
//               fused kernel gives the bits of its parts; I is an int64 that
//               wraps around
//   Value(m)    what memory holds, in a register
//   Put(m, r)   stores a register of any kind, as a cast would: floats round to
//               nearest even, integers saturate from floats and wrap from wider
//               ones
//   Rounded<T>(r)   what a register is after a stay in memory of type T
//   Pack<T, n>      n neighbours, read and written in words of up to 16 bytes
#ifndef BACKENDS_CUDA_CODEGEN_KERNEL_TEXT_H_
#define BACKENDS_CUDA_CODEGEN_KERNEL_TEXT_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "mtf/dtype.h"
#include "mtf/emitter.h"
#include "mtf/map_expression.h"

namespace mtf::cuda {

// "float", "BF16", "F16", "int", "i64", "Bool"
absl::string_view StorageType(DType dtype);
// "F", "I" or "bool"
absl::string_view RegisterType(DType dtype);

// A register that holds `number` as `dtype` holds it: "F(0.5f)", "I(7)",
// "F(kInfinity)", "true".
std::string LiteralText(double number, DType dtype);

// What every kernel begins with.
absl::string_view BasicText();
// Combining two numbers (float, double or i64); needs BasicText.
//
//   Kind::Of(x, y)          Kind is Sum, Max or Min; NaN wins
//   Plain(r), Register(x)   a register as a number, and back
absl::string_view CombineText();
// The same, and across the lanes of a warp and the warps of a block.
//
//   AcrossLanes<Kind, n>(x) over n neighbouring lanes (a power of two); all 32
//                           must come, and each gets the result
//   AcrossBlock<Kind, n>(x, shared) over all n threads; each gets the result
absl::string_view ReduceText();
// Shared memory of a size that the launch decides, and copies to it that take
// no registers on their way; needs BasicText.
//
//   kept               its first byte, at a multiple of 16
//   Fetch(to, from)    copies a pack: it is there behind AwaitFetched() to this
//                      thread, behind a barrier to others
absl::string_view KeptText();
// Philox4x32-10 and numbers from its words, as mtf/philox.h has them.
absl::string_view RandomText();

// The rows that the steps of some expressions need, each once: definitions of
// RowGelu(x) and the like.
class RowText {
 public:
  void Add(ScalarFunction function);
  const std::string& text() const { return text_; }

 private:
  std::vector<bool> added_ = std::vector<bool>(256, false);
  std::string text_;
};

// An expression written as statements, one constant per step.
struct StepText {
  std::string statements;  // "const F t2 = RowGelu(t1);\n", ...
  std::string result;      // the name of the register that holds the result
  DType dtype = kFloat32;  // of the result, to which it is rounded already
};

// Writes the steps of `expression` over registers called `operands` of
// `dtypes`. New names start with `prefix`; lines with `indent`. `iota` gives
// the text of the global index (of an integer type) along a dimension.
StepText WriteSteps(
    const MapExpression& expression, absl::Span<const std::string> operands,
    absl::Span<const DType> dtypes, absl::string_view prefix,
    absl::string_view indent, RowText& rows,
    const std::function<std::string(const std::string& dimension)>& iota);

// "Sum", "Max", "Min": the Kind of ReduceText.
absl::string_view ReduceKindText(ReduceKind kind);
// The register type in which values of `dtype` are combined: a "double" or
// "i64" for sums, for others the register itself. Bools are combined as F.
std::string TotalType(ReduceKind kind, DType dtype);
// What combining nothing gives, as that type: "0.0", "-kInfinity", ...
std::string IdentityText(ReduceKind kind, DType dtype);

}  // namespace mtf::cuda

#endif  // BACKENDS_CUDA_CODEGEN_KERNEL_TEXT_H_
