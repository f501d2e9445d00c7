// SPDX-License-Identifier: Apache-2.0
#include "layouts/tensor_layout.h"

#include <limits>

#include "absl/strings/str_cat.h"
#include "mtf/check.h"

namespace mtf {

AxisSet TensorLayout::Sharded() const {
  AxisSet set = 0;
  for (const AxisList& axes : dims) set |= SetOf(axes);
  return set;
}

bool TensorLayout::IsLegal() const {
  AxisSet seen = unreduced;
  for (const AxisList& axes : dims) {
    for (int axis : axes) {
      if (seen >> axis & 1) return false;
      seen |= AxisSet{1} << axis;
    }
  }
  return true;
}

TensorLayout TensorLayout::Reduced() const {
  TensorLayout layout = *this;
  layout.unreduced = 0;
  layout.reduction = ReduceKind::kSum;
  return layout;
}

std::string LayoutText(const Mesh& mesh, const Shape& shape,
                       const TensorLayout& layout) {
  MTF_CHECK_EQ(shape.rank(), static_cast<int>(layout.dims.size()));
  std::string text;
  for (int i = 0; i < shape.rank(); ++i) {
    absl::StrAppend(&text, i == 0 ? "" : ", ", shape[i].name, ":",
                    shape[i].size);
    if (!layout.dims[i].empty()) {
      absl::StrAppend(&text, "/", mesh.AxisNames(layout.dims[i]));
    }
  }
  if (layout.unreduced != 0) {
    absl::StrAppend(&text, text.empty() ? "" : " ", "unreduced{",
                    mesh.AxisNames(ListOf(layout.unreduced), ", "), "}");
    if (layout.reduction == ReduceKind::kMax) text += " max";
    if (layout.reduction == ReduceKind::kMin) text += " min";
  }
  return text;
}

void Grains::Allow(absl::string_view dimension, AxisSet axes) {
  axes_[Insert(dimension)] |= axes;
}

void Grains::Tie(absl::string_view a, absl::string_view b) {
  const int kept = Insert(a);
  const int merged = Insert(b);
  if (kept == merged) return;
  axes_[kept] |= axes_[merged];
  // Keep every name pointing directly at its root: lookups need no path
  // compression, so threads can share one Grains.
  for (int& parent : parents_) {
    if (parent == merged) parent = kept;
  }
}

AxisSet Grains::AxesOf(absl::string_view dimension) const {
  const int root = Root(dimension);
  return root < 0 ? 0 : axes_[root];
}

int64_t Grains::GrainOf(absl::string_view dimension) const {
  return mesh_.SizeOf(AxesOf(dimension));
}

int64_t Grains::ExtentOf(absl::string_view dimension, int64_t size) const {
  const int64_t grain = GrainOf(dimension);
  MTF_CHECK_LE(size, std::numeric_limits<int64_t>::max() - grain);
  return (size + grain - 1) / grain * grain;
}

int Grains::Root(absl::string_view name) const {
  const auto found = ids_.find(name);
  return found == ids_.end() ? -1 : parents_[found->second];
}

int Grains::Insert(absl::string_view name) {
  const int id = static_cast<int>(parents_.size());
  const auto [found, inserted] = ids_.emplace(std::string(name), id);
  if (inserted) {
    parents_.push_back(id);
    axes_.push_back(0);
  }
  return parents_[found->second];
}

}  // namespace mtf
