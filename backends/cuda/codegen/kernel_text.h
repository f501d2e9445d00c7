// SPDX-License-Identifier: Apache-2.0
//
// The vocabulary of generated kernels: the types of elements in memory and in
// registers, and the functions of mtf/scalar_functions.h over them. It is CUDA
// C++ without includes, so NVRTC needs no include path.
//
//   in memory   float  BF16  F16  int  i64  Bool      (StorageType)
//   registers   F      F     F    I    I    bool      F is a float whose every
//               operation rounds by itself (no contraction), so that a fused
//               kernel gives the bits of the single ones; I is an int64 that
//               wraps around
//   Value(m)    converts an element in memory to a register
//   Put(m, r)   stores a register of any kind, as a cast does: floats round to
//               nearest even; integers saturate from floats and wrap from wider
//               ones
//   Rounded<T>(r)   the register after storing it as type T and reading it back
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

// The register for `number` as a constant of `dtype`: "F(0.5f)", "I(7)",
// "F(kInfinity)", "true".
std::string LiteralText(double number, DType dtype);

// The beginning of every kernel.
absl::string_view BasicText();
// Combines two numbers (float, double or i64); needs BasicText.
//
//   Kind::Of(x, y)          Kind is Sum, Max or Min; NaN wins
//   Plain(r), Register(x)   convert a register to a number, and back
absl::string_view CombineText();
// CombineText, and reductions across the lanes of a warp and a block's warps.
//
//   AcrossLanes<Kind, n>(x) over n neighbouring lanes (a power of two); all 32
//                           lanes must call it, and each gets the result
//   AcrossBlock<Kind, n>(x, shared) over all n threads; each gets the result
absl::string_view ReduceText();
// Dynamic shared memory, and copies to it that bypass registers; needs
// BasicText.
//
//   kept               its first byte, aligned to 16
//   Fetch(to, from)    copies a pack, which is visible to this thread after
//                      AwaitFetched(), and to others after a barrier
absl::string_view KeptText();
// Philox4x32-10 and the numbers made from its words, as in mtf/philox.h.
absl::string_view RandomText();

// Definitions (RowGelu(x) and the like) of the scalar functions that some
// expressions use, each once.
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
  DType dtype = kFloat32;  // of the result, already rounded to it
};

// Writes the steps of `expression` over registers called `operands` of
// `dtypes`. New names start with `prefix`, lines with `indent`. `iota` returns
// the text of the global index (of an integer type) along a dimension.
StepText WriteSteps(
    const MapExpression& expression, absl::Span<const std::string> operands,
    absl::Span<const DType> dtypes, absl::string_view prefix,
    absl::string_view indent, RowText& rows,
    const std::function<std::string(const std::string& dimension)>& iota);

// "Sum", "Max", "Min": the Kind in ReduceText.
absl::string_view ReduceKindText(ReduceKind kind);
// The type in which values of `dtype` are combined: "double" or "i64" for sums,
// otherwise the register type. Bools are combined as F.
std::string TotalType(ReduceKind kind, DType dtype);
// The identity of the reduction, of that type: "0.0", "-kInfinity", ...
std::string IdentityText(ReduceKind kind, DType dtype);

}  // namespace mtf::cuda

#endif  // BACKENDS_CUDA_CODEGEN_KERNEL_TEXT_H_
