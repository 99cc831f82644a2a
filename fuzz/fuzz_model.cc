// Fuzzing of the names of models with their overrides, "mlp:layers=4,hidden=256".
#include "models/model.h"
#include "target.h"

void tandem::fuzz::parse(std::string_view input) { models::parse_model(input); }
