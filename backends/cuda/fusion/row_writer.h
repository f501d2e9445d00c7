// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_CUDA_FUSION_ROW_WRITER_H_
#define BACKENDS_CUDA_FUSION_ROW_WRITER_H_

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "backends/backend.h"
#include "backends/cuda/codegen/kernel_text.h"
#include "backends/cuda/fusion/row_plan.h"

namespace mtf::cuda {

// Writes the kernel of a row group. Its parameters are the inputs, the stored
// results by member except for sums over rows, and the partial results of
// those.
class RowGroupWriter {
 public:
  explicit RowGroupWriter(const RowPlan& plan)
      : plan_(plan),
        done_inputs_(plan.inputs(), false),
        done_maps_(plan.members(), false) {}

  // Call once.
  std::string Write();

 private:
  using Needs = RowPlan::Needs;
  using Source = RowPlan::Source;

  // Register names and their texts.
  std::string Register(const Source& source) const;
  DType DTypeOf(const Source& source) const;
  std::string PackType(DType dtype) const {
    return absl::StrCat("Pack<", StorageType(dtype), ", ", plan_.tiling().pack,
                        ">");
  }
  // The address of a thread's pack in the row of `value`.
  std::string PackAddress(const std::string& array, const BoundValue& value,
                          bool written) const;
  StepText Steps(int member);

  // Statements.
  void WriteRows();
  void WriteRow();
  void WriteRowInputs();
  void WriteFetches();
  void WriteRowMaps(int phase);
  void WritePhase(int phase);
  void WriteRowSums(int phase);
  void WriteStores();
  void WritePartial();
  void OpenColumns();
  void OpenPack();
  void WritePackLoads(const Needs& needs);
  void WriteWideInput(int input, bool keep);
  void WriteElements(const Needs& needs, bool keep);
  void Line(const std::string& text) {
    absl::StrAppend(&body_, Indent(), text, "\n");
  }
  void Open(const std::string& text) {
    Line(text);
    ++depth_;
  }
  void Close() {
    --depth_;
    Line("}");
  }
  std::string Indent() const { return std::string(2 * depth_, ' '); }

  const RowPlan& plan_;
  std::vector<bool> done_inputs_, done_maps_;  // already in registers
  RowText row_text_;
  std::string body_;
  int depth_ = 1;
};

}  // namespace mtf::cuda

#endif  // BACKENDS_CUDA_FUSION_ROW_WRITER_H_
