// SPDX-License-Identifier: Apache-2.0
#ifndef LOWERING_EMIT_LOOKUP_LAYOUTS_H_
#define LOWERING_EMIT_LOOKUP_LAYOUTS_H_

#include <string>
#include <vector>

#include "layouts/tensor_layout.h"
#include "mtf/shape.h"

namespace mtf {

// The layouts of a lookup of rows in a table, or of its transpose, which adds
// rows to a table. Each device looks up its indices in its shard of the table.
struct LookupLayouts {
  TensorLayout table;    // of [vocab, d]
  TensorLayout indices;  // of [batch]
  TensorLayout rows;     // of [batch, d]
};

struct LookupShapes {
  std::string dimension;  // that the indices index
  Shape table, indices, rows;
};

// The layouts in which a lookup can be computed, where `rules` are those that
// the rules give. If the dimension that is indexed and one of the indices are
// sharded over one mesh axis, a device would miss rows. Each such axis then
//
//   * shards the table alone, so the rows are unreduced over it,
//   * or shards the indices and the rows alone,
//   * or moves to another dimension of the table, which the rows have too.
//
// Without such an axis, `rules` alone.
std::vector<LookupLayouts> PossibleLookups(const LookupShapes& shapes,
                                           const LookupLayouts& rules);

}  // namespace mtf

#endif  // LOWERING_EMIT_LOOKUP_LAYOUTS_H_
