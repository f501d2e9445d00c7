// SPDX-License-Identifier: Apache-2.0
#include "mtf/shape.h"

#include <limits>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "mtf/check.h"

namespace mtf {

bool IsDimensionName(absl::string_view name) {
  if (name.empty()) return false;
  for (char c : name) {
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c)) && c != '_' &&
        c != '-') {
      return false;
    }
  }
  return true;
}

const std::vector<Dimension>& Shape::None() {
  static const auto* none = new std::vector<Dimension>;
  return *none;
}

Shape::Shape(std::vector<Dimension> dims) {
  if (dims.empty()) return;
  dims_ = std::make_shared<const std::vector<Dimension>>(std::move(dims));
}

int64_t Shape::num_elements() const {
  int64_t n = 1;
  for (const Dimension& dim : dims()) n *= dim.size;
  return n;
}

int Shape::Find(absl::string_view name) const {
  const std::vector<Dimension>& all = dims();
  for (size_t i = 0; i < all.size(); ++i) {
    if (all[i].name == name) return static_cast<int>(i);
  }
  return -1;
}

int64_t Shape::SizeOf(absl::string_view name) const {
  const int i = Find(name);
  MTF_CHECK(i >= 0) << "no dimension \"" << name << "\" in [" << ToString()
                    << "]";
  return dims()[i].size;
}

Shape Shape::With(Dimension dim) const {
  std::vector<Dimension> all = dims();
  all.push_back(std::move(dim));
  return Shape(std::move(all));
}

Shape Shape::Without(absl::string_view name) const {
  std::vector<Dimension> rest;
  for (const Dimension& dim : dims()) {
    if (dim.name != name) rest.push_back(dim);
  }
  return Shape(std::move(rest));
}

Shape Shape::Renamed(absl::string_view from, absl::string_view to) const {
  std::vector<Dimension> all = dims();
  for (Dimension& dim : all) {
    if (dim.name == from) dim.name = std::string(to);
  }
  return Shape(std::move(all));
}

Shape Shape::Resized(absl::string_view name, int64_t size) const {
  std::vector<Dimension> all = dims();
  for (Dimension& dim : all) {
    if (dim.name == name) dim.size = size;
  }
  return Shape(std::move(all));
}

bool Shape::SameDimensions(const Shape& other) const {
  if (dims_ == other.dims_) return true;
  if (rank() != other.rank()) return false;
  for (const Dimension& dim : dims()) {
    const int i = other.Find(dim.name);
    if (i < 0 || other[i].size != dim.size) return false;
  }
  return true;
}

absl::Status Shape::Validate() const {
  int64_t elements = 1;
  for (int i = 0; i < rank(); ++i) {
    const Dimension& dim = (*this)[i];
    if (!IsDimensionName(dim.name)) {
      return absl::InvalidArgumentError(
          absl::StrCat("dimension name \"", absl::CHexEscape(dim.name),
                       "\" in [", absl::CHexEscape(ToString()),
                       "] is not made of letters, digits, \"_\" and \"-\""));
    }
    if (dim.size < 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "dimension \"", dim.name, "\" has the negative size ", dim.size));
    }
    for (int j = 0; j < i; ++j) {
      if ((*this)[j].name == dim.name) {
        return absl::InvalidArgumentError(absl::StrCat(
            "dimension \"", dim.name, "\" occurs twice in [", ToString(), "]"));
      }
    }
    constexpr int64_t kMost = int64_t{1} << 62;
    if (dim.size > 0 && elements > kMost / dim.size) {
      return absl::InvalidArgumentError(
          absl::StrCat("shape [", ToString(), "] has more than 2^62 elements"));
    }
    elements *= dim.size > 0 ? dim.size : 1;
  }
  return absl::OkStatus();
}

std::string Shape::ToString() const {
  return absl::StrJoin(dims(), ", ", [](std::string* out, const Dimension& d) {
    absl::StrAppend(out, d.name, "=", d.size);
  });
}

}  // namespace mtf
