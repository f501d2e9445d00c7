// SPDX-License-Identifier: Apache-2.0
#include "lowering/passes/fuse_convolutions.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "lowering/passes/copy_windows.h"
#include "lowering/program/convolution_spec.h"
#include "lowering/program/readers.h"

namespace mtf {
namespace {

// The instructions of a convolution, by what they compute, because copies move
// instructions.
struct ConvolutionChain {
  std::vector<int> results;  // in the order of the instructions
  bool needs_copy = false;   // of all but the einsum, which is the last
};

class ChainFinder {
 public:
  ChainFinder(const FusionCapabilities& device, const Program& program)
      : device_(device),
        program_(program),
        producers_(FindProducers(program)),
        readers_(CountReaders(program)),
        reader_(program.values.size(), -1),
        computed_at_(FindComputedAt(program)) {
    for (size_t i = 0; i < program.instructions.size(); ++i) {
      for (int operand : program.instructions[i].operands) {
        if (readers_[operand] == 1) reader_[operand] = static_cast<int>(i);
      }
    }
  }

  // The convolution that `einsum` is part of; without results if there is none.
  ConvolutionChain Find(int einsum) const {
    for (int operand : At(einsum).operands) {
      std::vector<int> members = WindowsBefore(operand);
      if (members.empty()) continue;
      members.push_back(einsum);
      if (!IsConvolution(members)) continue;
      return {ResultsOf(members), NeedsCopy(members)};
    }
    const std::vector<int> members = FoldsAfter(einsum);
    if (members.size() == 1 || !IsConvolution(members)) return {};
    return {ResultsOf(members), false};
  }

 private:
  const Instruction& At(int i) const { return program_.instructions[i]; }

  // Whether `members` are a convolution of a dtype that the device takes.
  bool IsConvolution(const std::vector<int>& members) const {
    const auto spec = FindConvolution(program_, members);
    if (!spec.has_value()) return false;
    return spec->dtype == kFloat32 ? device_.convolutions
                                   : device_.convolutions_of_16_bits;
  }

  std::vector<int> ResultsOf(const std::vector<int>& members) const {
    std::vector<int> results;
    for (int member : members) results.push_back(At(member).results[0]);
    return results;
  }

  // The place_rows and windows that compute `value`.
  std::vector<int> WindowsBefore(int value) const {
    std::vector<int> chain;
    for (int i = producers_[value]; i >= 0; i = producers_[At(i).operands[0]]) {
      const bool is_windows = At(i).opcode == Opcode::kWindows;
      if (!is_windows && (chain.empty() || !IsZeroPadding(At(i)))) break;
      chain.push_back(i);
    }
    std::reverse(chain.begin(), chain.end());
    return chain;
  }

  // An einsum and the fold_windows and place_rows that alone read its result.
  std::vector<int> FoldsAfter(int einsum) const {
    std::vector<int> chain = {einsum};
    for (;;) {
      const int next = reader_[At(chain.back()).results[0]];
      if (next < 0 || (At(next).opcode != Opcode::kFoldWindows &&
                       !IsZeroPadding(At(next)))) {
        return chain;
      }
      chain.push_back(next);
    }
  }

  // Whether windows have other readers, or the other operand of the einsum is
  // computed after the first of them.
  bool NeedsCopy(const std::vector<int>& members) const {
    for (size_t i = 0; i + 1 < members.size(); ++i) {
      if (readers_[At(members[i]).results[0]] != 1) return true;
    }
    const int windows = At(members[members.size() - 2]).results[0];
    for (int operand : At(members.back()).operands) {
      if (operand != windows && computed_at_[operand] >= members.front()) {
        return true;
      }
    }
    return false;
  }

  const FusionCapabilities& device_;
  const Program& program_;
  const std::vector<int> producers_;  // by value
  const std::vector<int> readers_;    // by value: how many
  std::vector<int> reader_;           // by value: the only one, or -1
  const std::vector<int> computed_at_;
};

// Copies the windows that have to be, which are then members of the chains.
void CopyWindowsOf(std::vector<ConvolutionChain>& chains, Program& program) {
  const std::vector<int> producers = FindProducers(program);
  std::vector<WindowsCopy> copies(chains.size());
  std::vector<WindowsCopy*> needed;
  for (size_t i = 0; i < chains.size(); ++i) {
    if (!chains[i].needs_copy) continue;
    const std::vector<int>& results = chains[i].results;
    copies[i].reader = producers[results.back()];
    copies[i].results.assign(results.begin(), results.end() - 1);
    needed.push_back(&copies[i]);
  }
  CopyWindows(needed, program);
  for (size_t i = 0; i < chains.size(); ++i) {
    std::copy(copies[i].results.begin(), copies[i].results.end(),
              chains[i].results.begin());
  }
}

}  // namespace

absl::Status FuseConvolutions(const FusionCapabilities& device,
                              Program& program) {
  EraseGroupsFrom<ConvolutionGroup>(program.groups);
  if (!device.convolutions && !device.convolutions_of_16_bits) {
    return absl::OkStatus();
  }
  std::vector<ConvolutionChain> chains;
  {
    const ChainFinder finder(device, program);
    for (size_t i = 0; i < program.instructions.size(); ++i) {
      if (!IsProduct(program.instructions[i])) continue;
      ConvolutionChain chain = finder.Find(static_cast<int>(i));
      if (!chain.results.empty()) chains.push_back(std::move(chain));
    }
  }
  CopyWindowsOf(chains, program);
  const std::vector<int> producers = FindProducers(program);
  std::vector<FusedGroup> groups;
  for (const ConvolutionChain& chain : chains) {
    FusedGroup group{{}, ConvolutionGroup()};
    for (int result : chain.results) group.members.push_back(producers[result]);
    groups.push_back(std::move(group));
  }
  AddGroups(std::move(groups), program);
  return absl::OkStatus();
}

}  // namespace mtf
