// SPDX-License-Identifier: Apache-2.0
#include "tools/program_stage.h"

#include <algorithm>
#include <iterator>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "layouts/shard.h"
#include "layouts/text_items.h"
#include "lowering/lower.h"
#include "lowering/program/fused_group.h"

namespace mtf::tools {
namespace {

// Narrows the range of stages by what each part of the program shows.
class ProgramStageFinder {
 public:
  explicit ProgramStageFinder(const Program& program)
      : program_(program), names_(StageNames()) {
    range_.last = names_.size() - 1;
  }

  StageRange Run() {
    CheckInstructions();
    CheckLocalExtents();
    CheckGroups();
    if (program_.buffers.buffers.empty()) {
      UpTo("batch_maps", "has no buffers{...}");
    } else {
      From("plan_buffers", "has buffers{...}");
    }
    return range_;
  }

 private:
  size_t StageOf(absl::string_view name) const {
    return std::find(names_.begin(), names_.end(), name) - names_.begin();
  }
  void From(absl::string_view name, const std::string& why) {
    const size_t stage = StageOf(name);
    if (stage <= range_.first) return;
    range_.first = stage;
    range_.not_earlier = why;
  }
  void UpTo(absl::string_view name, const std::string& why) {
    const size_t stage = StageOf(name);
    if (stage >= range_.last) return;
    range_.last = stage;
    range_.not_later = why;
  }
  std::string NameOf(int value) const {
    return absl::StrCat("%", Escaped(program_.values[value].name));
  }

  void CheckInstructions() {
    const Instruction* collective = nullptr;
    const Instruction* bucket = nullptr;
    bool reshards = false;
    for (const Instruction& instruction : program_.instructions) {
      if (instruction.opcode == Opcode::kReshard) {
        UpTo("plan_reshapes",
             absl::StrCat("has a reshard, ", NameOf(instruction.results[0])));
        reshards = true;
      } else if (instruction.opcode == Opcode::kWait) {
        From("overlap_collectives", "has a wait");
      } else if (const auto* einsum = instruction.Find<EinsumAttributes>();
                 einsum != nullptr && einsum->plan != nullptr) {
        From("plan_einsums", "has plans of einsums, by{...}");
      }
      if (CopiesToOrFromHost(instruction.opcode)) {
        From("place_host_copies",
             absl::StrCat("has a copy between the memory of the device and of "
                          "the host, ",
                          NameOf(instruction.results[0])));
      }
      if (!IsCollective(instruction.opcode)) continue;
      if (collective == nullptr) collective = &instruction;
      if (instruction.operands.size() > 1) bucket = &instruction;
      if (IsAsynchronous(instruction)) {
        From("overlap_collectives",
             absl::StrCat("has an asynchronous collective, ",
                          NameOf(instruction.results[0])));
      }
    }
    // A text written by hand may have both: expand_reshards leaves existing
    // collectives alone.
    if (collective == nullptr || reshards) return;
    From("expand_reshards", absl::StrCat("has collectives and no reshard, ",
                                         NameOf(collective->results[0])));
    if (bucket == nullptr) return;
    From("bucket_all_reduces",
         absl::StrCat("has a collective of several values and no reshard, ",
                      NameOf(bucket->results[0])));
  }

  // From shard_shapes on, a program states the local extent of each dimension
  // whose extent differs from its size.
  void CheckLocalExtents() {
    for (size_t v = 0; v < program_.values.size(); ++v) {
      const ProgramValue& value = program_.values[v];
      for (int i = 0; i < value.shape.rank(); ++i) {
        const int64_t extent =
            LocalExtent(program_.grains, value.shape, value.layout, i);
        if (extent == value.shape[i].size) continue;
        const std::string what = absl::StrCat(
            "dimension \"", Escaped(value.shape[i].name), ":",
            value.shape[i].size, "\" of ", NameOf(static_cast<int>(v)), " ",
            value.local.empty() ? "without" : "with",
            " its extent on each "
            "device, \"=",
            extent, "\"");
        if (value.local.empty()) {
          UpTo("bucket_all_reduces", absl::StrCat("has ", what));
        } else {
          From("shard_shapes", absl::StrCat("has ", what));
        }
        return;
      }
    }
  }

  void CheckGroups() {
    constexpr absl::string_view kPasses[] = {
        "fuse_convolutions", "fuse_pools",          "fuse_epilogues",
        "fuse_rows",         "fuse_bias_gradients", "batch_maps"};
    static_assert(std::size(kPasses) == std::variant_size_v<GroupKind>);
    for (const FusedGroup& group : program_.groups) {
      const Instruction& first = program_.instructions[group.members.front()];
      From(kPasses[group.kind.index()],
           absl::StrCat("has a group, that of ", NameOf(first.results[0])));
    }
  }

  const Program& program_;
  std::vector<std::string> names_;
  StageRange range_;
};

}  // namespace

std::vector<std::string> StageNames() {
  std::vector<std::string> names = PassNames();
  names.insert(names.begin(), "emit_program");
  return names;
}

StageRange StagesOf(const Program& program) {
  return ProgramStageFinder(program).Run();
}

}  // namespace mtf::tools
