// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_CPU_WINDOWS_POOL_MAP_H_
#define BACKENDS_CPU_WINDOWS_POOL_MAP_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "backends/backend.h"
#include "backends/cpu/block_program.h"
#include "backends/index_space.h"
#include "mtf/check.h"

namespace mtf::cpu {

// The address that element 0 of a value would have if element `first` were at
// `data`, because elements are numbered from 0.
inline void* AddressOfFirst(void* data, int64_t first, int64_t element_bytes) {
  return reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(data) -
                                 static_cast<uintptr_t>(first * element_bytes));
}

// The member that is `instruction` of the program.
inline const Binding& MemberOf(int instruction,
                               absl::Span<const Binding> members) {
  const auto member = std::find_if(
      members.begin(), members.end(),
      [&](const Binding& each) { return each.index == instruction; });
  MTF_CHECK(member != members.end()) << "instruction " << instruction;
  return *member;
}

// A map of a pooling, with one element for each window.
class PoolMap {
 public:
  // `map` reads some of the values `sources`, which have no memory. Of its
  // result, it has the first `dims` dimensions, and repeats its operands along
  // the others.
  PoolMap(const Binding& map, absl::Span<const int> sources, int dims)
      : program_(map.instruction().Get<MapAttributes>().expression,
                 map.operands, SpaceOf(map.results[0], dims)),
        result_(map.results[0].data) {
    const auto& operands = map.instruction().operands;
    for (size_t source = 0; source < sources.size(); ++source) {
      for (size_t i = 0; i < operands.size(); ++i) {
        if (operands[i] != sources[source]) continue;
        sources_.push_back({static_cast<int>(i), source});
      }
    }
  }

  const BlockProgram& program() const { return program_; }
  // The memory of the result, or null.
  void* result() const { return result_; }
  int64_t element_bytes() const { return DTypeSize(program_.dtype()); }

  // Computes elements [begin, begin + count). `sources` and `result` are the
  // addresses of element 0.
  void Run(BlockProgram::Evaluator& evaluator,
           absl::Span<const void* const> sources, int64_t begin, int64_t count,
           void* result) const {
    for (const Source& source : sources_) {
      evaluator.MoveOperand(source.operand, sources[source.source]);
    }
    // A value of one element is a constant.
    if (program_.elements() == 1) evaluator.ReadConstants();
    for (int64_t end = begin + count; begin < end;
         begin += BlockProgram::kBlock) {
      evaluator.Store(begin, std::min(BlockProgram::kBlock, end - begin),
                      result);
    }
  }

 private:
  BlockProgram program_;
  void* result_;
  struct Source {
    int operand;
    size_t source;
  };
  std::vector<Source> sources_;
};

}  // namespace mtf::cpu

#endif  // BACKENDS_CPU_WINDOWS_POOL_MAP_H_
