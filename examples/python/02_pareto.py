# %% [markdown]
# # Time against memory: a Pareto front
# Every strategy for GPT-2 on one node of eight A100, and those that nothing beats in both.
# Needs matplotlib. `python 02_pareto.py [FILE]` writes the plot to a file, by default pareto.png.

# %%
import sys

import matplotlib

if "ipykernel" not in sys.modules:
    matplotlib.use("Agg")
import matplotlib.pyplot as plt

import tandem

found = tandem.explore("gpt2", "dgx_a100:1", dtype="bf16", progress=print)
print(found)

# %% [markdown]
# Columns are arrays.

# %%
memory = found.column("memory_bytes") / 1e9
throughput = found.column("throughput")
fits = found.column("feasible")

front = sorted(found.pareto, key=lambda point: point.memory)
front_memory = found.column("memory_bytes", front) / 1e9
front_throughput = found.column("throughput", front)

# %%
figure, axes = plt.subplots(figsize=(9, 5.5), layout="constrained")
axes.scatter(memory[fits], throughput[fits], s=12, color="0.75", label="fits")
if not fits.all():
    axes.scatter(memory[~fits], throughput[~fits], s=12, color="0.75", marker="x", label="does not fit")
axes.step(front_memory, front_throughput, where="post", color="C0")
axes.scatter(front_memory, front_throughput, s=30, color="C0", zorder=3, label="Pareto front")
for point in (front[0], front[-1]):
    axes.annotate(
        point.strategy,
        (point.memory / 1e9, point.throughput),
        xytext=(8, -12),
        textcoords="offset points",
        fontsize=8,
    )
axes.set_xscale("log")
axes.set_xlabel("memory of the fullest device, GB")
axes.set_ylabel("samples per second")
axes.set_title(f"{found['model']} on {found['machine']}, batch {found['batch']}, {found['dtype']}")
axes.legend(frameon=False)

# %%
if "ipykernel" in sys.modules:
    plt.show()
else:
    file = sys.argv[1] if len(sys.argv) > 1 else "pareto.png"
    figure.savefig(file, dpi=150)
    print(f"wrote {file}")
