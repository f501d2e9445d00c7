// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/codegen/loop_nest.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "mtf/check.h"

namespace mtf::cuda {

void LoopNest::Add(const std::string& dimension, int64_t extent,
                   std::vector<int64_t> strides, bool counted) {
  MTF_CHECK_EQ(static_cast<int>(strides.size()), arrays_) << dimension;
  elements_ *= extent;
  if (extent == 1) {
    if (counted) single_.push_back(dimension);
    return;
  }
  if (!loops_.empty() && !counted && loops_.back().counted.empty()) {
    Loop& outer = loops_.back();
    bool folds = true;
    for (int i = 0; i < arrays_; ++i) {
      folds = folds && outer.strides[i] == strides[i] * extent;
    }
    if (folds) {
      outer.extent *= extent;
      outer.strides = std::move(strides);
      return;
    }
  }
  loops_.push_back({extent, std::move(strides), counted ? dimension : ""});
}

int64_t LoopNest::inner_extent() const {
  return loops_.empty() ? 1 : loops_.back().extent;
}

int64_t LoopNest::inner_stride(int array) const {
  return loops_.empty() ? 0 : loops_.back().strides[array];
}

bool LoopNest::OffsetsDivide(int array, int64_t width) const {
  for (size_t i = 0; i < loops_.size(); ++i) {
    const int64_t stride = loops_[i].strides[array];
    if (i + 1 == loops_.size() && stride == 1) continue;
    if (stride % width != 0) return false;
  }
  return true;
}

bool LoopNest::StridesDivide(int array, int64_t width) const {
  return std::all_of(loops_.begin(), loops_.end(), [&](const Loop& loop) {
    return loop.strides[array] % width == 0;
  });
}

int64_t LoopNest::Reach(int array) const {
  int64_t reach = 0;
  for (const Loop& loop : loops_) {
    reach += std::max<int64_t>(loop.extent - 1, 0) * loop.strides[array];
  }
  return reach;
}

bool LoopNest::IsLinear(int array) const {
  for (size_t i = 0; i + 1 < loops_.size(); ++i) {
    if (loops_[i].strides[array] !=
        loops_[i + 1].strides[array] * loops_[i + 1].extent) {
      return false;
    }
  }
  return true;
}

std::string LoopNest::Name(size_t loop) const {
  return loops_.size() == 1 ? index_ : absl::StrCat(index_, "_", loop);
}

std::string LoopNest::Coordinates(absl::string_view indent) const {
  if (loops_.size() < 2) return "";
  std::string text;
  int64_t inner = 1;
  for (size_t i = loops_.size(); i-- > 0;) {
    bool used = !loops_[i].counted.empty();
    for (int array = 0; array < arrays_; ++array) {
      used = used || (loops_[i].strides[array] != 0 && !IsLinear(array));
    }
    if (used) {
      absl::StrAppend(&text, indent, "const Index ", Name(i), " = ", index_);
      if (inner > 1) absl::StrAppend(&text, " / ", inner);
      if (i > 0) absl::StrAppend(&text, " % ", loops_[i].extent);
      text += ";\n";
    }
    inner *= loops_[i].extent;
  }
  return text;
}

std::string LoopNest::Offset(int array) const {
  const auto times = [](const std::string& name, int64_t stride) {
    return stride == 1 ? name : absl::StrCat(name, " * ", stride);
  };
  if (loops_.empty()) return "";
  if (IsLinear(array)) {
    const int64_t stride = loops_.back().strides[array];
    return stride == 0 ? "" : times(index_, stride);
  }
  std::vector<std::string> terms;
  for (size_t i = 0; i < loops_.size(); ++i) {
    const int64_t stride = loops_[i].strides[array];
    if (stride != 0) terms.push_back(times(Name(i), stride));
  }
  return SumText(terms);
}

std::string LoopNest::Coordinate(const std::string& dimension) const {
  for (size_t i = 0; i < loops_.size(); ++i) {
    if (loops_[i].counted == dimension) return Name(i);
  }
  const bool single =
      std::find(single_.begin(), single_.end(), dimension) != single_.end();
  return single ? "0" : "";
}

bool LoopNest::IsInner(const std::string& dimension) const {
  return !loops_.empty() && loops_.back().counted == dimension;
}

std::string SumText(const std::vector<std::string>& terms) {
  std::string text;
  for (const std::string& term : terms) {
    if (term.empty()) continue;
    absl::StrAppend(&text, text.empty() ? "" : " + ", term);
  }
  return text.empty() ? "0" : text;
}

}  // namespace mtf::cuda
