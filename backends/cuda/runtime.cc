// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/runtime.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace mtf::cuda {
namespace {

// "t/128" of a transposed matrix with 128 elements between columns; unusual
// properties follow: "128+65536" with a batch stride, "@4" aligned to 4 bytes.
std::string Text(const MatmulProblem::Matrix& matrix) {
  std::string text =
      absl::StrCat(matrix.transposed ? "t/" : "", matrix.leading);
  if (matrix.batch_stride != 0) {
    absl::StrAppend(&text, "+", matrix.batch_stride);
  }
  if (matrix.alignment != 16) absl::StrAppend(&text, "@", matrix.alignment);
  return text;
}

absl::string_view Text(MatmulProblem::Epilogue epilogue) {
  using Epilogue = MatmulProblem::Epilogue;
  switch (epilogue) {
    case Epilogue::kNone:
      return "";
    case Epilogue::kBias:
      return " bias";
    case Epilogue::kGelu:
      return " gelu";
    case Epilogue::kBiasGelu:
      return " bias gelu";
    case Epilogue::kGeluSlope:
      return " gelu slope";
    case Epilogue::kBiasOfSlope:
      return " gelu slope, sum over m";
    case Epilogue::kSumsOfX:
      return " sums of x";
    case Epilogue::kSumsOfY:
      return " sums of y";
  }
  return "";
}

}  // namespace

int64_t MatmulProblem::bias_elements() const {
  switch (epilogue) {
    case Epilogue::kNone:
    case Epilogue::kGelu:
    case Epilogue::kGeluSlope:
      return 0;
    case Epilogue::kSumsOfX:
      return m;
    case Epilogue::kBias:
    case Epilogue::kBiasGelu:
    case Epilogue::kBiasOfSlope:
    case Epilogue::kSumsOfY:
      return n;
  }
  return 0;
}

std::string MatmulProblem::ToString() const {
  std::string text(DTypeName(dtype));
  if (result_dtype != dtype) {
    absl::StrAppend(&text, " to ", DTypeName(result_dtype));
  }
  if (batch != 1) absl::StrAppend(&text, " batch ", batch);
  absl::StrAppend(&text, " m ", m, " n ", n, " k ", k, " x ", Text(x), " y ",
                  Text(y), " z ", Text(z));
  if (alpha != 1) absl::StrAppend(&text, " alpha ", alpha);
  if (beta != 0) absl::StrAppend(&text, " beta ", beta);
  absl::StrAppend(&text, Text(epilogue), stores_gelu_input ? " kept" : "",
                  tf32 ? " tf32" : "");
  return text;
}

}  // namespace mtf::cuda
