// SPDX-License-Identifier: Apache-2.0
#include "lowering/verify/verify_rows.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "layouts/shard.h"
#include "lowering/program/row_moves.h"
#include "lowering/verify/verify_expressions.h"
#include "mtf/status.h"

namespace mtf::internal {
namespace {

// Keeps every sum and product of a RowPlan far from overflow.
constexpr int64_t kMostPosition = int64_t{1} << 60;

bool IsBelow(int64_t count, int64_t stride, int64_t more) {
  int64_t product;
  return !__builtin_mul_overflow(count, stride, &product) &&
         product <= kMostPosition - std::min(more, kMostPosition);
}

absl::Status CheckPositions(const Program& program,
                            const RowsAttributes& rows) {
  const size_t sources = rows.sizes.size();
  if (sources == 0 || rows.offsets.size() != sources ||
      rows.replicated.size() != sources) {
    return Bad("every source needs a size and an offset");
  }
  if ((rows.wrap || rows.adds) && sources > 1) {
    return Bad("rows that wrap around or add up have one source");
  }
  if (rows.adds && rows.replicated[0]) {
    return Bad("rows add up in a sharded source");
  }
  if (rows.stride < 1 || rows.windows < 0 || rows.span < 0 ||
      !IsBelow(program.grains.ExtentOf(rows.dimension, rows.windows),
               rows.stride, rows.span)) {
    return BadDimension(rows.dimension, "does not fit into its range");
  }
  constexpr int64_t kMostRepeats = 64;  // that of Windows() in ops/
  if (rows.wrap &&
      (rows.windows * rows.stride + rows.span) / kMostRepeats > rows.sizes[0]) {
    return BadDimension(rows.dimension, "repeats too often");
  }
  std::vector<std::pair<int64_t, int64_t>> ranges;
  for (size_t k = 0; k < sources; ++k) {
    if (rows.sizes[k] < 0 || rows.sizes[k] > kMostPosition ||
        rows.offsets[k] > kMostPosition || rows.offsets[k] < -kMostPosition) {
      return BadDimension(rows.dimension, "does not fit into its range");
    }
    if (rows.sizes[k] == 0) continue;
    ranges.push_back({rows.offsets[k], rows.offsets[k] + rows.sizes[k]});
  }
  std::sort(ranges.begin(), ranges.end());
  for (size_t i = 1; i < ranges.size(); ++i) {
    if (ranges[i - 1].second > ranges[i].first) {
      return Bad("two sources have rows at one position");
    }
  }
  return absl::OkStatus();
}

// Checks that `value` has the dimensions of `like`, in that order, but for
// dimension `dim`.
absl::Status CheckOthers(const ProgramValue& value, const ProgramValue& like,
                         int dim) {
  if (value.dtype != like.dtype) return Bad("the dtype changes");
  if (value.shape.rank() != like.shape.rank()) return Bad("the rank changes");
  for (int i = 0; i < like.shape.rank(); ++i) {
    if (i != dim && !(value.shape[i] == like.shape[i])) {
      return BadDimension(like.shape[i].name, "changes");
    }
  }
  return absl::OkStatus();
}

class RowShapes {
 public:
  RowShapes(const Program& program, const Instruction& instruction)
      : program_(program),
        instruction_(instruction),
        rows_(instruction.Get<RowsAttributes>()),
        plan_(RowTransferOf(program.grains, rows_)) {}

  absl::Status Check() {
    if (!plan_.is_complete()) return Bad("a rank needs rows of too many ranks");
    const bool takes = instruction_.opcode == Opcode::kTakeRows;
    const size_t rounds = plan_.rounds().size();
    if (takes ? rows_.round < 0 || rows_.round >= static_cast<int>(rounds)
              : rows_.round >= 0) {
      return Bad(absl::StrCat("there are ", rounds, " rounds"));
    }
    const size_t held = rows_.adds ? 1 : rows_.sizes.size();
    const size_t expected = takes ? held : held + rounds;
    if (instruction_.operands.size() != expected) {
      return Bad(absl::StrCat("there must be ", expected, " operands"));
    }
    dim_ = RowDimOf(program_, instruction_);
    const ProgramValue& source = Source(0);
    if (dim_ < 0) {
      return BadDimension(rows_.dimension, "is not in the source");
    }
    if (takes) {
      MTF_RETURN_IF_ERROR(rows_.adds ? CheckLine(source) : CheckSources());
      return CheckMessage(rows_.round, result());
    }
    MTF_RETURN_IF_ERROR(CheckSources());
    MTF_RETURN_IF_ERROR(CheckLine(rows_.adds ? operand(0) : result()));
    for (size_t i = 0; i < rounds; ++i) {
      MTF_RETURN_IF_ERROR(CheckMessage(static_cast<int>(i), operand(held + i)));
    }
    return absl::OkStatus();
  }

 private:
  const ProgramValue& operand(size_t i) const {
    return program_.values[instruction_.operands[i]];
  }
  const ProgramValue& result() const {
    return program_.values[instruction_.results[0]];
  }
  // The values with the rows of the sources. Unknown to a take_rows that adds,
  // whose operand has their other dimensions.
  const ProgramValue& Source(size_t k) const {
    return rows_.adds && instruction_.opcode == Opcode::kPlaceRows ? result()
                                                                   : operand(k);
  }
  absl::Status CheckSources() const {
    for (size_t k = 0; k < rows_.sizes.size(); ++k) {
      const ProgramValue& source = Source(k);
      MTF_RETURN_IF_ERROR(CheckOthers(source, Source(0), dim_));
      if (!(source.shape[dim_] == Dimension{rows_.dimension, rows_.sizes[k]})) {
        return BadDimension(rows_.dimension, "has another size");
      }
    }
    return absl::OkStatus();
  }
  // A line of one position per window is the dimension itself.
  absl::Status CheckLine(const ProgramValue& line) const {
    MTF_RETURN_IF_ERROR(CheckOthers(line, Source(0), dim_));
    const Dimension& dim = line.shape[dim_];
    const bool is_dimension = dim.name == rows_.dimension;
    if (is_dimension
            ? rows_.stride != 1 || rows_.span != 1 || dim.size != rows_.windows
            : dim.size !=
                  plan_.transfer().ranks * plan_.transfer().LineExtent()) {
      return BadDimension(dim.name, "has another size");
    }
    return absl::OkStatus();
  }
  absl::Status CheckMessage(int round, const ProgramValue& message) const {
    MTF_RETURN_IF_ERROR(CheckOthers(message, Source(0), dim_));
    const Dimension& dim = message.shape[dim_];
    return dim.size == plan_.transfer().ranks * plan_.rounds()[round].rows
               ? absl::OkStatus()
               : BadDimension(dim.name, "has another size");
  }

  const Program& program_;
  const Instruction& instruction_;
  const RowsAttributes& rows_;
  const RowPlan plan_;
  int dim_ = 0;
};

}  // namespace

absl::Status VerifyRowShapes(const Program& program,
                             const Instruction& instruction) {
  const auto& rows = instruction.Get<RowsAttributes>();
  MTF_RETURN_IF_ERROR(CheckPositions(program, rows));
  if (program.mesh.SizeOf(rows.axes) > 1 &&
      (SetOf(rows.axes) & ~program.grains.AxesOf(rows.dimension)) != 0) {
    return BadDimension(rows.dimension, "is never sharded over these axes");
  }
  return RowShapes(program, instruction).Check();
}

absl::Status VerifyWindowShapes(const Program& program,
                                const Instruction& instruction) {
  const auto& windows = instruction.Get<WindowAttributes>();
  const bool folds = instruction.opcode == Opcode::kFoldWindows;
  const int first = folds ? instruction.operands[0] : instruction.results[0];
  const int second = folds ? instruction.results[0] : instruction.operands[0];
  const ProgramValue& in_windows = program.values[first];
  const ProgramValue& line = program.values[second];
  if (in_windows.dtype != line.dtype) return Bad("the dtype changes");
  const int rank = line.shape.rank();
  const int dim = line.shape.Find(windows.line);
  if (dim < 0) return BadDimension(windows.line, "is not in the line");
  if (in_windows.shape.rank() != rank + 1 ||
      in_windows.shape[rank].name != windows.window) {
    return BadDimension(windows.window, "is not the last of the windows");
  }
  for (int i = 0; i < rank; ++i) {
    const bool good = i == dim ? in_windows.shape[i].name == windows.dimension
                               : in_windows.shape[i] == line.shape[i];
    if (!good) return BadDimension(in_windows.shape[i].name, "changes");
  }
  // Each shard of the line has the elements of the windows of its rank.
  const int64_t ranks = program.mesh.SizeOf(in_windows.layout.dims[dim]);
  const int64_t extent = ranks == 1
                             ? in_windows.shape[dim].size
                             : LocalExtent(program.grains, in_windows.shape,
                                           in_windows.layout, dim);
  const int64_t window = in_windows.shape[rank].size;
  if (extent == 0 || window == 0) return absl::OkStatus();
  if (windows.stride < 1 || windows.dilation < 1 ||
      !IsBelow(window - 1, windows.dilation, 1) ||
      !IsBelow(extent - 1, windows.stride,
               (window - 1) * windows.dilation + 1)) {
    return BadDimension(windows.line, "does not fit into its range");
  }
  const int64_t needed =
      (extent - 1) * windows.stride + (window - 1) * windows.dilation + 1;
  return line.shape[dim].size / ranks >= needed
             ? absl::OkStatus()
             : BadDimension(windows.line, "does not fit into its range");
}

absl::Status VerifyRowLayouts(const Program& program,
                              const Instruction& instruction) {
  const auto* rows = instruction.Find<RowsAttributes>();
  // Dimension `dim` is sharded over `axes`, except in replicated sources. All
  // others are sharded alike.
  const ProgramValue& result = program.values[instruction.results[0]];
  int dim = -1;
  AxisList axes;
  if (rows != nullptr) {
    axes = rows->axes;
    dim = RowDimOf(program, instruction);
  } else {
    const auto& windows = instruction.Get<WindowAttributes>();
    const bool folds = instruction.opcode == Opcode::kFoldWindows;
    dim = folds ? result.shape.Find(windows.line)
                : result.shape.Find(windows.dimension);
    axes = result.layout.dims[dim];
    const ProgramValue& in_windows =
        folds ? program.values[instruction.operands[0]] : result;
    if (!in_windows.layout.dims.back().empty()) {
      return BadDimension(windows.window, "is sharded but must not be");
    }
    // Rows of different ranks must not be one dimension.
    if (!axes.empty() && windows.line == windows.dimension) {
      return BadDimension(windows.line, "is sharded but must not be");
    }
  }
  const auto check = [&](const ProgramValue& value,
                         bool replicated) -> absl::Status {
    for (int i = 0; i < value.shape.rank(); ++i) {
      if (i >= result.shape.rank()) break;
      const AxisList& expected = i != dim     ? result.layout.dims[i]
                                 : replicated ? AxisList()
                                              : axes;
      if (!(value.layout.dims[i] == expected)) {
        return BadDimension(value.shape[i].name, "is sharded in two ways");
      }
    }
    return absl::OkStatus();
  };
  for (size_t k = 0; k < instruction.operands.size(); ++k) {
    const bool replicated = rows != nullptr && !rows->adds &&
                            k < rows->replicated.size() && rows->replicated[k];
    MTF_RETURN_IF_ERROR(
        check(program.values[instruction.operands[k]], replicated));
  }
  return check(result, false);
}

namespace {

// What a value holds that was taken from others to be sent.
struct SentRows {
  const RowsAttributes* rows = nullptr;  // null: an ordinary value
  bool received = false;
  bool as_planned = false;  // by the collective of its round
};

bool AreOfOneTransfer(const RowsAttributes& a, const RowsAttributes& b) {
  return a.dimension == b.dimension && a.axes == b.axes && a.sizes == b.sizes &&
         a.offsets == b.offsets && a.replicated == b.replicated &&
         a.windows == b.windows && a.stride == b.stride && a.span == b.span &&
         a.wrap == b.wrap && a.adds == b.adds;
}

class SentRowsVerifier {
 public:
  explicit SentRowsVerifier(const Program& program)
      : program_(program), sent_(program.values.size()) {}

  absl::Status Check(const Instruction& instruction) {
    if (instruction.opcode == Opcode::kWait) return absl::OkStatus();
    if (instruction.opcode == Opcode::kCollectivePermute &&
        sent_[instruction.operands[0]].rows != nullptr) {
      return CheckSend(instruction);
    }
    const auto* rows = instruction.Find<RowsAttributes>();
    const bool places = instruction.opcode == Opcode::kPlaceRows;
    const size_t held = !places      ? instruction.operands.size()
                        : rows->adds ? 1
                                     : rows->sizes.size();
    for (size_t i = 0; i < instruction.operands.size(); ++i) {
      const SentRows& sent = sent_[instruction.operands[i]];
      if (i < held) {
        if (sent.rows == nullptr) continue;
        return Bad(absl::StrCat("operand %",
                                program_.values[instruction.operands[i]].name,
                                " has rows that are sent to another rank"));
      }
      if (sent.rows != nullptr && sent.received && sent.as_planned &&
          sent.rows->round == static_cast<int>(i - held) &&
          AreOfOneTransfer(*sent.rows, *rows)) {
        continue;
      }
      return Bad(absl::StrCat("operand %",
                              program_.values[instruction.operands[i]].name,
                              " does not have the rows of round ", i - held));
    }
    if (instruction.opcode == Opcode::kTakeRows) {
      sent_[instruction.results[0]].rows = rows;
    }
    return absl::OkStatus();
  }

 private:
  absl::Status CheckSend(const Instruction& instruction) {
    const SentRows& taken = sent_[instruction.operands[0]];
    if (taken.received) return Bad("the rows have been received already");
    const RowPlan plan(RowTransferOf(program_.grains, *taken.rows));
    const CollectiveAttributes planned = PermutationOf(
        plan.rounds()[taken.rows->round], taken.rows->axes, taken.rows->adds);
    const auto& permute = instruction.Get<CollectiveAttributes>();
    SentRows& result = sent_[instruction.results[0]];
    result = taken;
    result.received = true;
    result.as_planned = permute.axes == planned.axes &&
                        permute.shift == planned.shift &&
                        permute.sources == planned.sources;
    return absl::OkStatus();
  }

  const Program& program_;
  std::vector<SentRows> sent_;  // by value
};

}  // namespace

absl::Status VerifyRows(const Program& program, int* bad) {
  const bool has_rows =
      std::any_of(program.instructions.begin(), program.instructions.end(),
                  [](const Instruction& instruction) {
                    return instruction.Find<RowsAttributes>() != nullptr;
                  });
  if (!has_rows) return absl::OkStatus();
  SentRowsVerifier verifier(program);
  for (const Instruction& instruction : program.instructions) {
    const absl::Status status = verifier.Check(instruction);
    if (status.ok()) continue;
    *bad = static_cast<int>(&instruction - program.instructions.data());
    return status;
  }
  return absl::OkStatus();
}

}  // namespace mtf::internal
