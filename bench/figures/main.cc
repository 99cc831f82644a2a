// tandem_figures FOLDER: makes the figures of MAD-Max's evaluation again (docs/guides/explore.md).
#include <filesystem>
#include <iostream>

#include "base/error.h"
#include "figure.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: tandem_figures FOLDER\n";
    return 2;
  }
  try {
    std::filesystem::create_directories(argv[1]);
    tandem::figures::write_to(argv[1]);
    tandem::figures::table_1_and_figures_1_and_7();
    tandem::figures::table_2_and_figure_3();
    tandem::figures::figures_8_to_10();
    tandem::figures::figure_11();
    tandem::figures::figures_12_to_14();
    tandem::figures::figure_15();
  } catch (const tandem::UserError& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
  return 0;
}
