// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/map_groups.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "backends/cpu/map.h"
#include "backends/cpu/map_sweep.h"
#include "backends/cpu/overlap.h"

namespace mtf::cpu {
namespace {

// Longer chains would not keep their blocks in the first-level cache.
constexpr size_t kMaxChain = 8;

// Whether `later` writes nothing that `earlier` accesses, and the reverse,
// except for values for which `is_safe(x, y)`.
template <class IsSafe>
bool AreIndependent(const Binding& earlier, const Binding& later,
                    const IsSafe& is_safe) {
  const BoundValue &first = earlier.results[0], &second = later.results[0];
  return is_safe(first, second) &&
         std::all_of(
             earlier.operands.begin(), earlier.operands.end(),
             [&](const BoundValue& read) { return is_safe(read, second); }) &&
         std::all_of(
             later.operands.begin(), later.operands.end(),
             [&](const BoundValue& read) { return is_safe(read, first); });
}

// Whether `later` may run at the same time as `earlier`.
bool CanRunAtOnce(const Binding& earlier, const Binding& later) {
  return AreIndependent(
      earlier, later,
      [](const BoundValue& x, const BoundValue& y) { return !Overlaps(x, y); });
}

// Whether `later` may compute a block as soon as `earlier` has computed the
// same block: each writes nothing that the other accesses at other elements.
bool CanInterleave(const Binding& earlier, const Binding& later) {
  return HaveSameElements(earlier.results[0], later.results[0]) &&
         AreIndependent(earlier, later,
                        [](const BoundValue& x, const BoundValue& y) {
                          return !Overlaps(x, y) || IsSameMemory(x, y);
                        });
}

// Whether both access a tensor of several elements.
bool ShareTensor(const Binding& earlier, const Binding& later) {
  return std::any_of(
      later.operands.begin(), later.operands.end(), [&](const BoundValue& x) {
        if (x.elements() <= 1) return false;
        if (IsSameMemory(x, earlier.results[0])) return true;
        return std::any_of(
            earlier.operands.begin(), earlier.operands.end(),
            [&](const BoundValue& y) { return IsSameMemory(x, y); });
      });
}

// The maps of a sweep under construction: chains of indices of members.
class SweepBuilder {
 public:
  explicit SweepBuilder(absl::Span<const Binding> members)
      : members_(members) {}

  // Adds a member to the chain that it depends on or shares a tensor with, or
  // as a new chain. Returns false if it must run after the sweep.
  bool Add(size_t index) {
    const Binding& map = members_[index];
    Chain* target = nullptr;
    bool depends = false;
    for (Chain& chain : chains_) {
      if (!CanRunWith(chain, map)) {
        if (depends || !FitsChain(chain, map)) return false;
        depends = true;
        target = &chain;
      } else if (target == nullptr && FitsChain(chain, map)) {
        target = &chain;
      }
    }
    if (target == nullptr) target = &chains_.emplace_back();
    target->push_back(index);
    return true;
  }

  // The kernel of the sweep, which is empty afterwards; null if it is now.
  std::unique_ptr<Kernel> Take() {
    if (chains_.empty()) return nullptr;
    std::vector<MapChain> chains;
    for (const std::vector<size_t>& indices : chains_) {
      MapChain& chain = chains.emplace_back();
      for (size_t index : indices) {
        const Binding& map = members_[index];
        chain.emplace_back(ExpressionOf(map.instruction()), map.operands,
                           map.results[0]);
      }
    }
    chains_.clear();
    return std::make_unique<MapSweep>(std::move(chains));
  }

 private:
  using Chain = std::vector<size_t>;

  bool CanRunWith(const Chain& chain, const Binding& map) const {
    return std::all_of(chain.begin(), chain.end(), [&](size_t i) {
      return CanRunAtOnce(members_[i], map);
    });
  }
  bool FitsChain(const Chain& chain, const Binding& map) const {
    return chain.size() < kMaxChain &&
           std::all_of(
               chain.begin(), chain.end(),
               [&](size_t i) { return CanInterleave(members_[i], map); }) &&
           std::any_of(chain.begin(), chain.end(),
                       [&](size_t i) { return ShareTensor(members_[i], map); });
  }

  absl::Span<const Binding> members_;
  std::vector<Chain> chains_;
};

// Kernels that run one after the other.
class KernelSequence : public Kernel {
 public:
  void Add(std::unique_ptr<Kernel> kernel) {
    if (kernel != nullptr) kernels_.push_back(std::move(kernel));
  }
  void Run(StepContext& context) override {
    for (const auto& kernel : kernels_) kernel->Run(context);
  }

 private:
  std::vector<std::unique_ptr<Kernel>> kernels_;
};

}  // namespace

std::unique_ptr<Kernel> PrepareMapGroup(absl::Span<const Binding> members) {
  auto sequence = std::make_unique<KernelSequence>();
  SweepBuilder sweep(members);
  for (size_t i = 0; i < members.size(); ++i) {
    const Binding& map = members[i];
    const MapExpression& expression = ExpressionOf(map.instruction());
    if (IsTranspose(expression, map.operands, map.results[0])) {
      sequence->Add(sweep.Take());
      sequence->Add(PrepareMap(expression, map.operands, map.results[0]));
    } else if (!sweep.Add(i)) {
      sequence->Add(sweep.Take());
      sweep.Add(i);
    }
  }
  sequence->Add(sweep.Take());
  return sequence;
}

}  // namespace mtf::cpu
