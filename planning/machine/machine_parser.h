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

// Parses one machine file; see Machine::Parse.
class MachineParser {
 public:
  MachineParser(absl::string_view text, absl::string_view origin)
      : text_(text), origin_(origin) {}

  absl::StatusOr<Machine> Run();

 private:
  enum class Kind { kTop, kDevice, kMatmul, kAttention, kLink };
  using Words = std::vector<absl::string_view>;

  static constexpr size_t kMaxRows = 1000;
  static constexpr CollectiveKind kKinds[] = {
      CollectiveKind::kAllReduce, CollectiveKind::kAllGather,
      CollectiveKind::kReduceScatter, CollectiveKind::kAllToAll,
      CollectiveKind::kCollectivePermute};

  absl::Status Fail(absl::string_view what, absl::string_view help) const {
    return FailAt(number_, line_, what, help);
  }
  absl::Status FailAt(int number, absl::string_view line,
                      absl::string_view what, absl::string_view help) const;
  // Adds the current line to an error of ParseQuantity.
  absl::Status WithLine(const absl::Status& status) const;
  // Parses a quantity and checks that it is plausible for a machine.
  absl::StatusOr<double> PlausibleQuantity(absl::string_view text,
                                           Quantity quantity) const;
  absl::StatusOr<double> InRange(absl::string_view text, double value,
                                 Quantity quantity) const;

  absl::Status Section();
  absl::Status Matmul(absl::string_view name);
  absl::Status EndSection();
  // Checks that no table is for more ranks than its link connects.
  absl::Status CheckTables() const;
  absl::Status Finish();
  // The name of the current section, and the entries it may have.
  std::string Where() const;
  std::vector<std::string> Entries() const;

  absl::Status Entry(const Words& words);
  absl::Status Name(const Words& rest);
  absl::Status Checked(const Words& rest);
  absl::Status Device(const std::string& key, const Words& rest);
  absl::Status Rate(const std::string& key, const Words& rest);
  // Parses "128:0.7 1024:1"; `key` and `what` are for errors.
  absl::Status Curve(const std::string& key, absl::string_view what,
                     const Words& rest, ShareCurve& curve) const;
  absl::Status Link(const std::string& key, const Words& rest);
  // Parses "yes" or "no"; `help` says what "yes" means.
  absl::Status YesOrNo(const std::string& key, const Words& rest,
                       absl::string_view help, bool& value) const;
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
  // A line of the text, for errors detected later.
  struct TextLine {
    int number = 0;
    absl::string_view line;
  };
  TextLine CurrentLine() const { return {number_, line_}; }
  // By link: the line of its section, or of its entry "ranks".
  std::vector<TextLine> link_lines_;
  // By table of the last link: its first line.
  std::vector<TextLine> table_lines_;
  std::vector<std::string> seen_;         // entries of this section
  std::function<void(TimeCurve)> store_;  // of the open table
  std::vector<TimeCurve::Point> rows_;
  int table_line_ = 0;
  absl::string_view table_text_;
};

}  // namespace mtf

#endif  // PLANNING_MACHINE_MACHINE_PARSER_H_
