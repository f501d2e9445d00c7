// SPDX-License-Identifier: Apache-2.0
#include "lowering/program/convolution_problem.h"

#include "absl/strings/str_cat.h"

namespace mtf {

int64_t ConvolutionProblem::flops() const {
  int64_t flops = 2 * batch * groups * inputs * outputs;
  for (const Spatial& dim : spatial) flops *= dim.output * dim.window;
  return flops;
}

int64_t ConvolutionProblem::InputElements() const {
  int64_t elements = batch * groups * inputs;
  for (const Spatial& dim : spatial) elements *= dim.input;
  return elements;
}

int64_t ConvolutionProblem::FilterElements() const {
  int64_t elements = groups * inputs * outputs;
  for (const Spatial& dim : spatial) elements *= dim.window;
  return elements;
}

int64_t ConvolutionProblem::OutputElements() const {
  int64_t elements = batch * groups * outputs;
  for (const Spatial& dim : spatial) elements *= dim.output;
  return elements;
}

std::string ConvolutionProblem::ToString() const {
  const char* const what = computes == Computes::kOutput  ? "output"
                           : computes == Computes::kInput ? "input"
                                                          : "filter";
  std::string text =
      absl::StrCat(DTypeName(dtype), " ", what, " batch ", batch, " groups ",
                   groups, " inputs ", inputs, " outputs ", outputs);
  for (const Spatial& dim : spatial) {
    absl::StrAppend(&text, " ", dim.input, " to ", dim.output, " window ",
                    dim.window, " stride ", dim.stride, " dilation ",
                    dim.dilation, " padding ", dim.before, ",", dim.after);
  }
  if (tf32) absl::StrAppend(&text, " tf32");
  return text;
}

}  // namespace mtf
