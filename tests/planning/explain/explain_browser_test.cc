// SPDX-License-Identifier: Apache-2.0
// Build: optimised only (starts a browser)
//
// Opens the page of an explanation in a browser, if there is one.
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "nlohmann/json.hpp"
#include "planning/explain/explain_text.h"
#include "tests/planning/explain/explain_test.h"
#include "tests/run_command.h"

namespace mtf::testing {
namespace {

using ::testing::HasSubstr;

// The path of a browser that can print a page after its scripts have run, or
// "".
std::string Browser() {
  for (const char* name : {"chromium", "chromium-browser", "google-chrome"}) {
    const std::string path = RunCommand(absl::StrCat("command -v ", name)).out;
    if (!path.empty()) return path.substr(0, path.find('\n'));
  }
  return "";
}

// What `script` returns on the page of `explanation`; null without a browser
// that works here.
nlohmann::json RunOnPage(const Explanation& explanation,
                         const std::string& script) {
  const std::string browser = Browser();
  if (browser.empty()) return nullptr;
  const std::string page = Temporary("page.html");
  const std::string profile = Temporary("profile");
  std::ofstream(page) << ExplainHtml(explanation) << R"(
<pre id="result"></pre>
<script>$("result").textContent = JSON.stringify((() => {)"
                      << script << "})());</script>";
  const Outcome outcome = RunCommand(absl::StrCat(
      "timeout 60 ", browser,
      " --headless --no-sandbox --disable-gpu --window-size=1400,2000",
      " --virtual-time-budget=2000 --dump-dom --user-data-dir=", profile,
      " file://", page));
  RunCommand(absl::StrCat("rm -rf ", profile, " ", page));
  const std::string open = "<pre id=\"result\">";
  const size_t begin = outcome.out.find(open);
  if (outcome.exit_code != 0 || begin == std::string::npos) return nullptr;
  const size_t end = outcome.out.find("</pre>", begin);
  const std::string result = absl::StrReplaceAll(
      outcome.out.substr(begin + open.size(), end - begin - open.size()),
      {{"&gt;", ">"}, {"&lt;", "<"}, {"&amp;", "&"}});
  // An object, or nothing if a script has failed.
  return result.empty() ? nlohmann::json::object()
                        : nlohmann::json::parse(result);
}

TEST(ExplainBrowser, GroupsFiltersAndShowsCauses) {
  const Explained step("data_model", 6);
  ASSERT_OK(step.explanation);
  Explanation e = *step.explanation;
  e.program = "example";
  const nlohmann::json result = RunOnPage(e, R"(
const rows = () => $("einsums").querySelectorAll("tbody tr");
const text = row => row.textContent.replace(/\u200b/g, "");
const result = {title: document.title, machine: $("machine").textContent,
                facts: $("facts").textContent};
result.groups = rows().length;
const folded = [...rows()].find(row => text(row).includes("layer_0..5/"));
result.name = text(folded);
folded.querySelector("button").click();
result.unfolded = rows().length - result.groups;
const filter = $("einsums").querySelector("input");
filter.value = "LAYER_3/ grad";
filter.oninput();
result.filtered = [...rows()].map(text);
const reduced = [...$("collectives").querySelectorAll("tbody tr")].find(
    row => text(row).includes("layer_0..5/"));
result.hidden_before = $("cause").hidden;
reduced.click();
result.hidden_after = $("cause").hidden;
result.cause = $("cause").textContent;
result.marked = $("rules").querySelectorAll(".marked").length;
result.phases = timeline.phases.map(phase => phase.name);
$("theme").click();
result.theme = document.documentElement.dataset.theme;
return result;)");
  if (result.is_null()) GTEST_SKIP() << "no browser works here";
  ASSERT_FALSE(result.empty()) << "a script of the page has failed";
  EXPECT_EQ(result["title"], "example: what a step costs");
  EXPECT_EQ(result["machine"],
            "Estimates for machine h100_nvlink_ib, never compared to a "
            "measured training step.");
  EXPECT_THAT(result["facts"].get<std::string>(),
              HasSubstr(absl::StrCat("batch", e.batch, "precisionf32")));
  EXPECT_LT(result["groups"].get<size_t>(), e.einsums.size() / 3);
  EXPECT_EQ(result["unfolded"], 6) << result["name"];
  EXPECT_FALSE(result["filtered"].empty());
  for (const auto& row : result["filtered"]) {
    EXPECT_THAT(row.get<std::string>(), HasSubstr("layer_3/"));
    EXPECT_THAT(row.get<std::string>(), HasSubstr("grad"));
  }
  EXPECT_EQ(result["hidden_before"], true);
  EXPECT_EQ(result["hidden_after"], false);
  EXPECT_THAT(result["cause"].get<std::string>(),
              HasSubstr("6 × all_reduce over model (2 ranks)"));
  EXPECT_GT(result["marked"], 0);
  EXPECT_EQ(result["phases"].dump(), R"(["forward","backward","update"])");
  EXPECT_EQ(result["theme"], "dark");
}

// The names of operations are those of the text.
TEST(ExplainBrowser, GroupsAsTheTextDoes) {
  const Explained step("megatron_sequence", 3);
  ASSERT_OK(step.explanation);
  const nlohmann::json result = RunOnPage(*step.explanation, R"(
return {rows: $("collectives").querySelectorAll("tbody tr").length,
        names: ["layer_12/a/b", "layer_12345678901/a/b", "_1/a", "x_1", "a/b_2/c"]
            .map(name => splitLayer(name).layer),
        units: [bytes(1536), bytes(1023), bytes(80 * 2 ** 20), seconds(1.234e-6),
                seconds(0.99999e-3), flops(2.5e12)],
        ranges: layerRanges([0, 3, 1, 2, 7])};)");
  if (result.is_null()) GTEST_SKIP() << "no browser works here";
  ASSERT_FALSE(result.empty()) << "a script of the page has failed";
  EXPECT_EQ(result["rows"],
            internal::GroupCollectives(*step.explanation).size());
  EXPECT_EQ(result["names"].dump(), "[12,-1,-1,-1,2]");
  EXPECT_EQ(result["units"].dump(),
            R"(["1.50 KiB","1023 B","80.0 MiB","1.23 us","1 ms","2.5 TFLOP"])");
  EXPECT_EQ(result["ranges"], "0..3,7");
}

}  // namespace
}  // namespace mtf::testing
