-- How often the intervals and tests of ponder.stats are correct for simulated tables: two policies
-- that answer the same items, each right with the same chance, independently.

local stats = require "ponder.stats"

local calibration = {}

local function simulate(seed, n, chance)
    local draws = stats.splitmix64_below(seed, 1000, 2 * n)
    local xs, table_of = {}, { a = 0, b = 0, c = 0, d = 0 }
    for i = 1, n do
        local first, second = draws[2 * i - 1] < chance * 1000, draws[2 * i] < chance * 1000
        local cell = first and (second and "a" or "b") or second and "c" or "d"
        table_of[cell] = table_of[cell] + 1
        xs[i] = first and 1.0 or 0.0
    end
    return xs, table_of
end

local function holds(value, lower, upper)
    return lower <= value and value <= upper and 1 or 0
end

---The share of tables whose interval holds the truth, for each interval, and the share in which
---each test rejects at 0.05 though there is no difference.
---@param tables integer
---@param opts {n: integer, chance: number, bootstraps: integer, replicates: integer}
---@return table<string, number> shares
function calibration.run(tables, opts)
    local n, chance = opts.n, opts.chance
    local counts = { wilson = 0, newcombe = 0, bootstrap = 0, mcnemar_midp = 0, mcnemar_exact = 0 }
    for seed = 1, tables do
        local xs, t = simulate(seed, n, chance)
        local wilson = stats.wilson(t.a + t.b, n)
        local newcombe = stats.newcombe_paired(t.a, t.b, t.c, t.d)
        counts.wilson = counts.wilson + holds(chance, wilson[1], wilson[2])
        counts.newcombe = counts.newcombe + holds(0, newcombe[2], newcombe[3])
        for _, test in ipairs { "mcnemar_midp", "mcnemar_exact" } do
            counts[test] = counts[test] + (stats[test](t.b, t.c) <= 0.05 and 1 or 0)
        end
        if seed <= opts.bootstraps then
            local bootstrap = stats.bootstrap_mean(xs, opts.replicates, seed)
            counts.bootstrap = counts.bootstrap + holds(chance, bootstrap[2], bootstrap[3])
        end
    end
    local shares = {}
    for name, count in pairs(counts) do
        shares[name] = count / (name == "bootstrap" and opts.bootstraps or tables)
    end
    return shares
end

return calibration
