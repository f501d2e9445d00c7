// SPDX-License-Identifier: Apache-2.0
#ifndef PLANNING_MACHINE_MACHINE_PARSER_H_
#define PLANNING_MACHINE_MACHINE_PARSER_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "planning/machine/machine.h"
#include "planning/machine/units.h"

namespace mtf {

// Reads one machine file; see Machine::Parse.
class MachineParser {
 public:
  MachineParser(absl::string_view text, absl::string_view origin)
      : text_(text), origin_(origin) {}

  absl::StatusOr<Machine> Run();

 private:
  enum class Kind { kTop, kDevice, kMatmul, kAttention, kLink };
  using Words = std::vector<absl::string_view>;

  static constexpr size_t kMostRows = 1000;
  static constexpr CollectiveKind kKinds[] = {
      CollectiveKind::kAllReduce, CollectiveKind::kAllGather,
      CollectiveKind::kReduceScatter, CollectiveKind::kAllToAll,
      CollectiveKind::kCollectivePermute};

  absl::Status Fail(absl::string_view what, absl::string_view help) const {
    return FailAt(number_, line_, what, help);
  }
  absl::Status FailAt(int number, absl::string_view line,
                      absl::string_view what, absl::string_view help) const;
  // A complaint of ParseQuantity, which knows no place.
  absl::Status At(const absl::Status& status) const;
  // The quantity that `text` writes, within what a machine can have.
  absl::StatusOr<double> Sensible(absl::string_view text,
                                  Quantity quantity) const;
  absl::StatusOr<double> InRange(absl::string_view text, double value,
                                 Quantity quantity) const;

  absl::Status Section();
  absl::Status Matmul(absl::string_view name);
  absl::Status EndSection();
  // A link has no table for more ranks than it joins.
  absl::Status CheckTables() const;
  absl::Status Finish();
  // What the present section is called, and the entries it may have.
  std::string Where() const;
  std::vector<std::string> Entries() const;

  absl::Status Entry(const Words& words);
  absl::Status Name(const Words& rest);
  absl::Status Device(const std::string& key, const Words& rest);
  absl::Status Rate(const std::string& key, const Words& rest);
  // Reads "128:0.7 1024:1"; `key` and `what` are for errors.
  absl::Status Curve(const std::string& key, absl::string_view what,
                     const Words& rest, ShareCurve& curve) const;
  absl::Status Link(const std::string& key, const Words& rest);
  absl::StatusOr<double> One(const Words& rest, Quantity quantity) const;
  absl::StatusOr<int64_t> Ranks(absl::string_view word) const;

  absl::Status BeginTable(std::function<void(TimeCurve)> store);
  absl::Status Row(const Words& words);
  absl::Status EndTable();

  absl::string_view text_;
  std::string origin_;
  int number_ = 0;
  absl::string_view line_;
  Machine machine_;
  Kind kind_ = Kind::kTop;
  bool device_ = false;
  int section_line_ = 0;
  absl::string_view section_text_;
  // A line of the text, for errors found further on.
  struct Place {
    int number = 0;
    absl::string_view line;
  };
  Place Here() const { return {number_, line_}; }
  // By link: where it begins, or says how many ranks it joins; and the heads of
  // the tables of the last one.
  std::vector<Place> link_places_;
  std::vector<Place> table_places_;
  std::vector<std::string> seen_;         // entries of this section
  std::function<void(TimeCurve)> store_;  // of the open table
  std::vector<TimeCurve::Point> rows_;
  int table_line_ = 0;
  absl::string_view table_text_;
};

}  // namespace mtf

#endif  // PLANNING_MACHINE_MACHINE_PARSER_H_
