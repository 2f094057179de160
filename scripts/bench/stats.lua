-- Checks ponder.stats against 10,000 simulated tables of 200 items with a probability of 0.3: how
-- often intervals contain the true value, and how often tests reject without a difference. Also
-- measures its speed.
--
--     lua5.4 scripts/bench/stats.lua        (`make bench` sets the paths)

local calibration = require "calibration"
local measure = require "measure"
local stats = require "ponder.stats"

print "calibration over 10,000 tables, n = 200, p = 0.3 (bootstrap: 200 replicates each)"
local shares = calibration.run(10000, { n = 200, chance = 0.3, bootstraps = 10000,
    replicates = 200 })
for _, name in ipairs { "wilson", "newcombe", "bootstrap" } do
    measure.report(name .. ": intervals that hold the truth", shares[name], ">=", 0.93)
    measure.report(name .. ": intervals that hold the truth", shares[name], "<=", 0.97)
end
measure.report("mcnemar_midp at 0.05: rejected", shares.mcnemar_midp, ">=", 0.03)
measure.report("mcnemar_midp at 0.05: rejected", shares.mcnemar_midp, "<=", 0.07)
measure.report("mcnemar_exact at 0.05: rejected", shares.mcnemar_exact, "<=", 0.05)

local xs = {}
for i = 1, 1000 do
    xs[i] = i % 7 / 7
end
print(("  %d million draws of a bootstrap took %.2f s"):format(10,
    measure.cpu(stats.bootstrap_mean, xs, 10000, 1)))
