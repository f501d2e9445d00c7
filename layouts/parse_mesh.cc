// SPDX-License-Identifier: Apache-2.0
//
// Mesh::Parse. Every error quotes the item, states its position and ends with a
// way out.
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "layouts/layout_rules.h"
#include "layouts/mesh.h"
#include "layouts/text_items.h"
#include "mtf/status.h"

namespace mtf {
namespace {

// MPI and NCCL count ranks in an int.
constexpr int64_t kMaxDevices = std::numeric_limits<int32_t>::max();
constexpr absl::string_view kForm =
    "write name:size items, as in \"data:2,model:4\"";

class MeshText {
 public:
  explicit MeshText(absl::string_view text)
      : text_(text), items_(SplitItems(text, /*comments=*/false)) {}

  const std::vector<TextItem>& items() const { return items_; }

  // `what` continues the sentence after the item: "has no size".
  absl::Status Error(int item, absl::string_view what,
                     absl::string_view help = kForm) const {
    return absl::InvalidArgumentError(absl::StrCat(
        "mesh item ", Quoted(items_[item].text), " ", what, " (item ", item + 1,
        " of ", items_.size(), ", ", items_[item].Characters(), ")",
        DetailLine("mesh", Quoted(text_)), DetailLine("help", help)));
  }

 private:
  absl::string_view text_;
  std::vector<TextItem> items_;
};

// Parses item `i`. The size may be -1.
absl::StatusOr<MeshAxis> ParseAxis(const MeshText& text, int i) {
  const absl::string_view item = text.items()[i].text;
  const size_t colon = item.find(':');
  if (colon == absl::string_view::npos) return text.Error(i, "has no size");
  if (item.find(':', colon + 1) != absl::string_view::npos) {
    return text.Error(i, "has more than one \":\"");
  }
  const absl::string_view name = item.substr(0, colon);
  const absl::string_view size = item.substr(colon + 1);
  if (name.empty()) return text.Error(i, "has no name");
  if (!IsLayoutName(name)) {
    return text.Error(
        i, "has a name that is not made of letters, digits, \"_\" and \"-\"");
  }
  if (name == kReplicated || name == kFormerReplicated) {
    return text.Error(i, "has a name that layouts reserve for no axis",
                      "choose another name");
  }
  if (size.empty()) {
    return text.Error(i, "has no size",
                      absl::StrCat(kForm, ", without blanks around \":\""));
  }
  const bool negative = size[0] == '-';
  const absl::string_view digits = size.substr(negative ? 1 : 0);
  bool is_number = !digits.empty();
  for (char c : digits) {
    is_number &= absl::ascii_isdigit(static_cast<unsigned char>(c));
  }
  if (!is_number) {
    return text.Error(i, "has a size that is not a whole number");
  }
  int64_t value;
  // Only digits are left, so the one way to fail is to be too large.
  if (!absl::SimpleAtoi(digits, &value)) value = kMaxDevices + 1;
  if (negative && value == 1) return MeshAxis{std::string(name), -1};
  if (negative || value == 0) {
    return text.Error(i, "has a size below 1",
                      "a size is 1 or more, or -1 for the rest of the ranks");
  }
  if (value > kMaxDevices) {
    return text.Error(i, absl::StrCat("has a size above ", kMaxDevices));
  }
  return MeshAxis{std::string(name), value};
}

// The size that -1 denotes if the other axes take `others` devices.
absl::StatusOr<int64_t> RestOfRanks(const MeshText& text, int item,
                                    int64_t others, int64_t num_ranks) {
  if (num_ranks <= 0) {
    return text.Error(
        item,
        "means the rest of the ranks, but the number of ranks is unknown here",
        "write the size");
  }
  if (num_ranks % others != 0) {
    return text.Error(
        item,
        absl::StrCat("cannot be the rest of ", Plural(num_ranks, "rank"),
                     ": the other axes take ", others, ", and ", num_ranks,
                     " is not a multiple of ", others),
        "choose sizes whose product divides the number of ranks");
  }
  return num_ranks / others;
}

// The mesh of `axes` with -1 in place of a size, chosen so that the mesh fits
// `num_ranks`.
std::string FittingMesh(const std::vector<MeshAxis>& axes, int64_t num_ranks) {
  int64_t devices = 1;
  for (const MeshAxis& axis : axes) devices *= axis.size;
  size_t rest = 0;
  while (rest < axes.size() && num_ranks % (devices / axes[rest].size) != 0) {
    ++rest;
  }
  if (rest == axes.size()) return "data:-1";
  std::string text;
  for (size_t i = 0; i < axes.size(); ++i) {
    absl::StrAppend(&text, i == 0 ? "" : ",", axes[i].name, ":",
                    i == rest ? int64_t{-1} : axes[i].size);
  }
  return text;
}

absl::Status WrongCount(absl::string_view text,
                        const std::vector<MeshAxis>& axes, int64_t devices,
                        int64_t num_ranks) {
  std::string product;
  for (const MeshAxis& axis : axes) {
    absl::StrAppend(&product, product.empty() ? "" : " * ", axis.size);
  }
  if (product.empty()) product = "no axes";
  return absl::InvalidArgumentError(absl::StrCat(
      "mesh ", Quoted(text), " has ", Plural(devices, "device"), " but there ",
      num_ranks == 1 ? "is " : "are ", Plural(num_ranks, "rank"),
      DetailLine("mesh", absl::StrCat(product, " = ", devices)),
      DetailLine("help", absl::StrCat("start ", Plural(devices, "rank"),
                                      ", or let one axis take the rest: \"",
                                      FittingMesh(axes, num_ranks), "\""))));
}

}  // namespace

absl::StatusOr<Mesh> Mesh::Parse(absl::string_view text, int64_t num_ranks) {
  const MeshText items(text);
  Mesh mesh;
  int rest = -1;
  int64_t devices = 1;
  for (int i = 0; i < static_cast<int>(items.items().size()); ++i) {
    MTF_ASSIGN_OR_RETURN(MeshAxis axis, ParseAxis(items, i));
    if (const int before = mesh.Find(axis.name); before >= 0) {
      return items.Error(
          i, absl::StrCat("names the axis of item ", before + 1, " again"),
          "give each axis its own name");
    }
    if (i >= kMaxMeshAxes) {
      return items.Error(i,
                         absl::StrCat("is one axis too many: a mesh has at "
                                      "most ",
                                      kMaxMeshAxes),
                         "merge axes that no rule distinguishes");
    }
    if (axis.size == -1) {
      if (rest >= 0) {
        return items.Error(i,
                           absl::StrCat("is -1 like item ", rest + 1,
                                        ", but only one axis can be the rest "
                                        "of the ranks"),
                           "give all sizes but one");
      }
      rest = i;
    } else {
      if (axis.size > kMaxDevices / devices) {
        return items.Error(
            i, absl::StrCat("makes more than ", kMaxDevices, " devices"),
            "choose smaller sizes");
      }
      devices *= axis.size;
    }
    mesh.axes_.push_back(std::move(axis));
  }
  if (rest >= 0) {
    MTF_ASSIGN_OR_RETURN(mesh.axes_[rest].size,
                         RestOfRanks(items, rest, devices, num_ranks));
    devices = num_ranks;
  }
  if (num_ranks > 0 && devices != num_ranks) {
    return WrongCount(text, mesh.axes_, devices, num_ranks);
  }
  return mesh;
}

}  // namespace mtf
