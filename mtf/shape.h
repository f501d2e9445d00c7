// SPDX-License-Identifier: Apache-2.0
#ifndef MTF_SHAPE_H_
#define MTF_SHAPE_H_

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "mtf/dimension.h"

namespace mtf {

// Whether `name` is a name for dimensions: letters, digits, "_" and "-". Layout
// rules and program texts separate names by other characters.
bool IsDimensionName(absl::string_view name);

// An ordered list of dimensions with distinct names. The order determines the
// row-major order of elements in host memory; operations match dimensions by
// name, not by position.
//
//   Shape s = {batch, d_model};
//   s.num_elements();              // batch.size * d_model.size
//   s.Without("batch").ToString()  // "d_model=256"
class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<Dimension> dims)
      : Shape(std::vector<Dimension>(dims)) {}
  explicit Shape(std::vector<Dimension> dims);

  int rank() const { return static_cast<int>(dims().size()); }
  const std::vector<Dimension>& dims() const { return dims_ ? *dims_ : None(); }
  const Dimension& operator[](int i) const { return dims()[i]; }
  auto begin() const { return dims().begin(); }
  auto end() const { return dims().end(); }

  // The product of all sizes; 1 for a scalar.
  int64_t num_elements() const;

  // The index of the dimension called `name`, or -1.
  int Find(absl::string_view name) const;
  bool Contains(absl::string_view name) const { return Find(name) >= 0; }
  // The size of the dimension called `name`, which must be present.
  int64_t SizeOf(absl::string_view name) const;

  // Copies with one change. `With` appends the dimension; `Without` an absent
  // name returns the same shape. The results are not checked: see Validate.
  Shape With(Dimension dim) const;
  Shape Without(absl::string_view name) const;
  Shape Renamed(absl::string_view from, absl::string_view to) const;
  Shape Resized(absl::string_view name, int64_t size) const;

  // Whether both have the same dimensions, in any order.
  bool SameDimensions(const Shape& other) const;

  // Returns kInvalidArgument for an empty or unprintable name, a repeated name,
  // a negative size, or more than 2^62 elements.
  absl::Status Validate() const;

  // "batch=8, hidden=16", as error messages show it.
  std::string ToString() const;

  friend bool operator==(const Shape& a, const Shape& b) {
    return a.dims_ == b.dims_ || a.dims() == b.dims();
  }

 private:
  static const std::vector<Dimension>& None();

  // Immutable and shared by all copies: a shape occurs many times in a program,
  // and copying names would dominate the time of lowering. Null if there are no
  // dimensions.
  std::shared_ptr<const std::vector<Dimension>> dims_;
};

}  // namespace mtf

#endif  // MTF_SHAPE_H_
