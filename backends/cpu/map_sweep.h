// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_CPU_MAP_SWEEP_H_
#define BACKENDS_CPU_MAP_SWEEP_H_

#include <cstdint>
#include <vector>

#include "backends/backend.h"
#include "backends/cpu/map.h"

namespace mtf::cpu {

// Maps over the same elements, at least one. Each block of one map is computed
// as soon as the same block of the maps before it.
using MapChain = std::vector<BlockMap>;

// Runs chains of maps, whose elements may differ in number, as one parallel
// loop over the blocks of all chains: the update of all parameters of an
// optimizer has one barrier, and small parameters cost none. Chains are
// independent of each other.
class MapSweep : public Kernel {
 public:
  explicit MapSweep(std::vector<MapChain> chains);

  void Run(StepContext& context) override;

 private:
  // Computes blocks [first, last) of a chain.
  static void RunBlocks(const MapChain& chain, int64_t first, int64_t last);

  std::vector<MapChain> chains_;
  std::vector<int64_t> first_block_;  // by chain, then the number of blocks
  int64_t grain_ = 1;                 // minimum number of blocks per thread
};

}  // namespace mtf::cpu

#endif  // BACKENDS_CPU_MAP_SWEEP_H_
