# %% [markdown]
# # A plan for GPT-2 on two nodes of eight A100
# Cells as in a notebook: editors run them one by one, `python 01_plan.py` all of them.

# %%
import tandem

model = tandem.model("gpt2", layers=6)
machine = tandem.machine("dgx_a100:2")
print(model.graph(batch=8))
print(machine)

# %% [markdown]
# ## The search
# A budget ends it early, with the best plan so far. Without one, Ctrl-C ends it, without a plan.

# %%
plan = tandem.plan(model, machine, dtype="bf16", batch=256, budget=20, progress=print)
print(plan)
print(f"{plan.speedup:.2f} x as fast as the best known strategy; the search ended: {plan.stop_reason}")

# %% [markdown]
# ## The baselines

# %%
for baseline in plan.baselines:
    time = f"{1e3 * baseline.time:8.2f} ms" if baseline.feasible else "does not fit, or apply"
    print(f"{baseline.strategy:<28} {time}")

# %% [markdown]
# ## Does it compute what the network does?

# %%
print(tandem.check(plan))

# %% [markdown]
# ## A network of one's own

# %%
b = tandem.GraphBuilder("small")
x = b.input("x", [64, 1024])
for layer in range(4):
    x = b.linear(x, b.weight(f"w{layer}", [1024, 1024]), act="relu")
graph = b.finish(b.mse(x, b.input("target", [64, 1024])))
print(graph)
print(tandem.plan(graph, "local:2"))
