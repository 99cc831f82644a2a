// A figure of MAD-Max's evaluation (ISCA'24), reproduced: the paper's numbers, those of its
// formulas (src/madmax), and those of Tandem's own model. Written as CSV and SVG.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace tandem::figures {

struct Row {
  std::string label;
  std::optional<double> paper, madmax, tandem;
  std::string note = {};  // of the CSV alone: strategies, why there is no number
};

struct Figure {
  std::string file;  // "fig9": docs/internals/figures/fig9.csv, fig9.svg
  std::string title;
  std::string label;  // of the values
  std::vector<Row> rows = {};
  std::optional<double> reference = {};  // a line across
  bool log = false;
};

// Kinds of time that add up in one bar.
struct Breakdown {
  std::string file, title;
  std::vector<std::string> kinds;
  struct Bar {
    std::string label;
    std::vector<double> seconds;  // by kind
  };
  std::vector<Bar> bars;
};

// Sets the directory of all files. Called once, by main.
void set_output_directory(const std::string& directory);
void write(const Figure& figure);        // also prints it
void write_table(const Figure& figure);  // without a plot: rows of different units
void write(const Breakdown& breakdown);
void write_file(const std::string& name, const std::string& text);

// Write the figures in their names.
void make_table_1_and_figures_1_and_7();
void make_table_2_and_figure_3();
void make_figures_8_to_10();
void make_figure_11();
void make_figures_12_to_14();
void make_figure_15();

}  // namespace tandem::figures
