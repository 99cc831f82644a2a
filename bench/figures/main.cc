// tandem_figures DIRECTORY: reproduces the figures of MAD-Max's evaluation
// (docs/guides/explore.md).
#include <filesystem>
#include <iostream>

#include "base/error.h"
#include "figure.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: tandem_figures DIRECTORY\n";
    return 2;
  }
  try {
    std::filesystem::create_directories(argv[1]);
    tandem::figures::set_output_directory(argv[1]);
    tandem::figures::make_table_1_and_figures_1_and_7();
    tandem::figures::make_table_2_and_figure_3();
    tandem::figures::make_figures_8_to_10();
    tandem::figures::make_figure_11();
    tandem::figures::make_figures_12_to_14();
    tandem::figures::make_figure_15();
  } catch (const tandem::UserError& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
  return 0;
}
