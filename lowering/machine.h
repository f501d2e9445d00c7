// SPDX-License-Identifier: Apache-2.0
//
// A device and its links: the numbers behind every estimated time.
#ifndef LOWERING_MACHINE_H_
#define LOWERING_MACHINE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "layouts/mesh.h"
#include "layouts/reshard_path.h"
#include "mtf/dtype.h"

namespace mtf {

// What a machine file says (docs/machines.md).
class Machine {
 public:
  // `origin` says where the text came from. kInvalidArgument with line and way
  // out for text that is no machine.
  static absl::StatusOr<Machine> Parse(absl::string_view text,
                                       absl::string_view origin);
  // A preset by name (lowering/machines/*.machine, built in), or the file of
  // this path. kNotFound with the nearest preset.
  static absl::StatusOr<Machine> Load(absl::string_view name_or_path);
  static std::vector<std::string> PresetNames();

  const std::string& name() const { return name_; }
  int64_t memory_bytes() const { return memory_bytes_; }  // of one device
  // Collectives run beside compute that does not need them.
  bool overlaps() const { return overlaps_; }

  // Seconds of one kernel, its launch included: `batch` products [m, k] x
  // [k, n], or a kernel that reads and writes `bytes` in all.
  double MatmulSeconds(DType dtype, int64_t batch, int64_t m, int64_t n,
                       int64_t k) const;
  double CopySeconds(int64_t bytes) const;
  // Seconds of a collective over `axes` of `mesh`. `bytes` is the whole buffer
  // of one rank: what all_reduce, reduce_scatter, all_to_all and
  // collective_permute start from, and what all_gather ends with.
  double CollectiveSeconds(CollectiveKind kind, const Mesh& mesh,
                           const AxisList& axes, int64_t bytes) const;

  // Text that Parse reads back.
  std::string ToString() const;

 private:
  std::string name_;
  int64_t memory_bytes_ = 0;
  bool overlaps_ = false;
};

}  // namespace mtf

#endif  // LOWERING_MACHINE_H_
