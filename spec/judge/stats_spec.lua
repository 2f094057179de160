local json = require "ponder.json"
local raises = require "raises"
local stats = require "ponder.stats"

local calibration = require "calibration"

-- Equal to 1e-9 of the larger of the value and 1e-12; JSON null stands for nil, "inf" for infinity.
local function near(want, got)
    if want == json.null then
        return got == nil
    elseif want == "inf" or type(want) == "string" then
        return got == (want == "inf" and math.huge or want)
    end
    return type(got) == "number"
        and math.abs(got - want) <= 1e-9 * math.max(math.abs(want), 1e-12)
end

local function agrees(want, got)
    if type(want) ~= "table" then
        return near(want, got)
    end
    for i, value in ipairs(want) do
        if not near(value, got[i]) then
            return false
        end
    end
    return type(got) == "table" and #want >= #got
end

describe("the vectors of ponder.stats", function()
    local vectors, names = {}, {}
    for line in io.lines("spec/fixtures/stats/vectors.jsonl") do
        local vector = json.decode(line)
        if not vectors[vector.name] then
            vectors[vector.name] = {}
            names[#names + 1] = vector.name
        end
        table.insert(vectors[vector.name], vector)
    end

    it("cover 25 functions", function()
        assert.equal(25, #names)
    end)

    for _, name in ipairs(names) do
        it("are reproduced: " .. name, function()
            for _, vector in ipairs(vectors[name]) do
                local got = stats[name](table.unpack(vector.args))
                assert(agrees(vector.out, got), ("%s: got %s"):format(json.encode(vector),
                    type(got) == "table" and table.concat(got, " ") or tostring(got)))
            end
        end)
    end
end)

describe("decide", function()
    it("reproduces the vectors", function()
        local count = 0
        for line in io.lines "spec/fixtures/sampling/decided.jsonl" do
            local vector = json.decode(line)
            local margin = vector.options.margin
            local got = stats.decide(vector.differences, { alpha = vector.options.alpha,
                margin = margin ~= json.null and margin or nil })
            for name, want in pairs(vector.out) do
                assert(type(want) == "number" and math.abs(got[name] - want) <= 1e-9
                    or got[name] == want, ("%s: %s: got %s"):format(vector.id, name, got[name]))
            end
            count = count + 1
        end
        assert.equal(60, count)
    end)

    it("has an interval that holds everything without differences", function()
        local got = stats.decide {}
        assert.same({ "undecided", 0, -1.0, 1.0 }, { got.verdict, got.at, got.lower, got.upper })
    end)

    it("refuses differences and levels out of range", function()
        for message, call in pairs { ["differences%[2%] must be a finite"] = { { 0, 1.5 } },
            ["alpha must be a number above 0"] = { {}, { alpha = 1 } },
            ["margin must be a number above 0"] = { {}, { margin = 0 } } } do
            raises.like("stats.decide: " .. message, stats.decide, call[1], call[2])
        end
    end)
end)

describe("majority_at_k", function()
    it("has the same values for several k as for each", function()
        for _, counts in ipairs { { 1 }, { 3, 3, 3 }, { 8, 0, 1, 7 }, { 20, 1, 1, 2, 5, 5, 9 },
            { 700, 500 } } do
            local n, ks, wanted = 0, {}, {}
            for _, count in ipairs(counts) do
                n = n + count
            end
            for k = 1, math.min(n, 12) do
                ks[k], wanted[k] = k, stats.majority_at_k(counts, 1, k)
            end
            assert.same(wanted, stats.majority_at_k(counts, 1, ks))
            assert.same({}, stats.majority_at_k(counts, 1, {}))
        end
    end)

    it("is the share of right votes over all choices", function()
        local samples = { 1, 1, 1, 2, 2, 3, 4, 4 } -- of four answers, the first is right
        local function share(k, from, counts) -- the sum over choices, and their number
            if k == 0 then
                local most, ties = 0, 0
                for answer = 1, 4 do
                    most = math.max(most, counts[answer])
                end
                for answer = 1, 4 do
                    ties = ties + (counts[answer] == most and 1 or 0)
                end
                return counts[1] == most and 1 / ties or 0, 1
            end
            local sum, number = 0, 0
            for i = from, #samples do
                counts[samples[i]] = counts[samples[i]] + 1
                local more, choices = share(k - 1, i + 1, counts)
                counts[samples[i]] = counts[samples[i]] - 1
                sum, number = sum + more, number + choices
            end
            return sum, number
        end
        for k, got in ipairs(stats.majority_at_k({ 3, 2, 1, 2 }, 1, { 1, 2, 3, 4, 5, 6, 7, 8 })) do
            local sum, number = share(k, 1, { 0, 0, 0, 0 })
            assert.is_true(near(sum / number, got), k)
        end
    end)
end)

describe("ponder.stats at the edges", function()
    it("has no results for no items", function()
        assert.same({ 0, 1 }, stats.wilson(0, 0))
        assert.same({ 0, 1 }, stats.clopper_pearson(0, 0))
        assert.same({ 0, -1, 1 }, stats.newcombe_paired(0, 0, 0, 0))
        assert.same({ 0, -1, 1 }, stats.newcombe_independent(0, 0, 3, 5))
        assert.equal(1, stats.mcnemar_exact(0, 0))
        assert.equal(1, stats.mcnemar_midp(0, 0))
        for _, name in ipairs { "mean", "se_clt" } do
            assert.is_nil(stats[name] {})
        end
        for _, name in ipairs { "se_cluster_miller", "se_cluster_cr0", "se_cluster_cr1" } do
            assert.is_nil(stats[name]({}, {}))
        end
        assert.is_nil(stats.quantile7({}, 0.5))
        assert.same({}, stats.paired_clustered({}, {}, {}))
        assert.same({}, stats.bootstrap_mean({}, 10, 1))
        assert.same({}, stats.bootstrap_paired({}, {}, 10, 1))
        assert.same({}, stats.bootstrap_ratio({}, {}, 10, 1))
        assert.same({}, stats.bootstrap_cluster({}, {}, 10, 1))
        assert.same({}, stats.holm {})
        assert.same({}, stats.benjamini_hochberg {})
        assert.same({}, stats.splitmix64(1, 0))
    end)

    it("has no result for more samples than there are", function()
        assert.is_nil(stats.pass_at_k(3, 1, 4))
        assert.is_nil(stats.pass_hat_k(3, 3, 4))
        assert.is_nil(stats.majority_at_k({ 2, 1 }, 1, 4))
        assert.is_nil(stats.majority_at_k({ 2, 1 }, 1, { 1, 4 }))
        assert.same({ 0.0, 0.0 }, stats.majority_at_k({ 2, 1 }, 0, { 1, 3 }))
    end)

    it("lets answers that were never sampled change no majority", function()
        assert.is_true(near(4 / 13, stats.majority_at_k({ 4, 6, 3, 0 }, 1, 1)))
        assert.equal(0, stats.majority_at_k({ 4, 6, 0 }, 3, 1))
    end)

    it("has no standard error across a single cluster", function()
        assert.is_nil(stats.se_cluster_cr1({ 0, 1, 1 }, { "a", "a", "a" }))
        local result = stats.paired_clustered({ 0, 1, 1 }, { 0, 0, 1 }, { 1, 1, 1 })
        assert.is_true(near(1 / 3, result[1]))
        assert.is_nil(result[2])
        assert.is_nil(result[5])
    end)

    it("leaves correlation undefined where a list does not vary, whatever the rounding", function()
        local xs, ys = { 0.1, 0.1, 0.1 }, { 1, 2, 4 }
        assert.is_nil(stats.paired_clustered(xs, ys, { 1, 2, 3 })[6])
    end)

    it("keeps every digit if n is large", function()
        -- Sums of binomial coefficients in exact rational arithmetic.
        assert.is_true(near(0.04658552770494739, stats.mcnemar_exact(4900, 5100)))
        local low, high = table.unpack(stats.clopper_pearson(5, 100000, 0.999999))
        assert.is_true(low > 0 and low < 5e-5 and high > 5e-5 and high < 1)
        assert.is_true(stats.mcnemar_exact(10, 1990) >= 0)
        assert.is_true(near(1 / 60, (function()
            local counts = {}
            for i = 1, 60 do
                counts[i] = 5
            end
            return stats.majority_at_k(counts, 1, 100)
        end)()))
    end)

    it("refuses more trials than it can compute with", function()
        local most = 1 << 30
        local low, high = table.unpack(stats.clopper_pearson(most // 2, most))
        assert.is_true(low < 0.5 and high > 0.5 and high - low < 1e-4)
        assert.is_true(stats.mcnemar_midp(most // 2, most // 2 - (1 << 15)) < 0.32)
        assert.has_error(function() stats.clopper_pearson(0, most + 1) end)
        assert.has_error(function() stats.mcnemar_exact(math.maxinteger, math.maxinteger) end)
        assert.has_error(function() stats.mcnemar_midp(0, most) end)
    end)

    it("accepts confidence near 0 and 1", function()
        local narrow, wide = stats.wilson(5, 10, 1e-9), stats.wilson(5, 10, 1 - 1e-12)
        assert.is_true(math.abs(narrow[1] - 0.5) < 1e-6 and math.abs(narrow[2] - 0.5) < 1e-6)
        assert.is_true(wide[1] > 0 and wide[1] < 0.1 and wide[2] < 1 and wide[2] > 0.9)
    end)

    it("accepts seeds of 64 bits, negative ones too", function()
        assert.same({ "e4d971771b652c20" }, stats.splitmix64(-1, 1))
        for _, index in ipairs(stats.splitmix64_below(math.mininteger, 3, 100)) do
            assert.is_true(index >= 0 and index < 3)
        end
    end)

    it("finds quantiles among infinities", function()
        local xs = { math.huge, 1, math.huge, 2 }
        assert.equal(math.huge, stats.quantile7(xs, 0.9))
        assert.equal(1, stats.quantile7(xs, 0))
        assert.equal(-math.huge, stats.quantile7({ -math.huge, 5 }, 0.5))
        assert.same({ math.huge, 1, math.huge, 2 }, xs)
    end)

    it("orders equal p values alike", function()
        assert.same({ 0.09, 0.09, 0.09 }, stats.holm { 0.03, 0.03, 0.03 })
        assert.same({ 0.03, 0.03, 0.03 }, stats.benjamini_hochberg { 0.03, 0.03, 0.03 })
    end)
end)

describe("the intervals of clusters", function()
    local function draw(count, epochs, seed)
        local draws, xs, groups = stats.splitmix64_below(seed, 1000, count * (epochs + 1)), {}, {}
        for i = 1, count * epochs do
            local item = (i - 1) // epochs
            groups[i] = item
            xs[i] = draws[i + count] < draws[item + 1] // 2 + seed % 500 and 1 or 0
        end
        return xs, groups
    end

    it("are those of Wilson with Student's quantile where all runs of an item agree", function()
        local xs, groups = {}, {}
        for i = 1, 100 do
            xs[i], groups[i] = i > 25 and 1 or 0, (i - 1) // 5
        end
        local t, n, p = 2.093024054408263, 20, 0.75 -- scipy.stats.t.ppf(0.975, 19)
        local half = t * math.sqrt(p * (1 - p) * n + t * t / 4)
        local got = stats.clustered_share(xs, groups)
        assert.is_true(near(p, got[1]) and near((p * n + t * t / 2 - half) / (n + t * t), got[2])
            and near((p * n + t * t / 2 + half) / (n + t * t), got[3]) and near(n, got[4]))
    end)

    it("have no fewer effective items than clusters, and no more than items", function()
        for seed = 1, 200 do
            local got = stats.clustered_share(draw(4 + seed % 20, 1 + seed % 5, seed))
            assert.is_true(got[4] <= (4 + seed % 20) * (1 + seed % 5) + 1e-9 and got[4] >= 3.999)
        end
    end)

    it("fall with no score that rises", function()
        for seed = 1, 60 do
            local xs, groups = draw(4 + seed % 17, 1 + seed % 5, seed)
            local ys = draw(4 + seed % 17, 1 + seed % 5, seed + 1000)
            for i, x in ipairs(xs) do
                if x == 0 then
                    local share = stats.clustered_share(xs, groups)
                    local difference = stats.clustered_difference(xs, ys, groups)
                    xs[i] = 1
                    local more = stats.clustered_share(xs, groups)
                    local apart = stats.clustered_difference(xs, ys, groups)
                    for limit = 2, 3 do
                        assert.is_true(more[limit] >= share[limit] - 1e-12
                            and apart[limit] >= difference[limit] - 1e-3)
                    end
                end
            end
        end
    end)

    it("have room where all scores are equal", function()
        local zeros, ones, groups = {}, {}, {}
        for i = 1, 60 do
            zeros[i], ones[i], groups[i] = 0, 1, (i - 1) // 3
        end
        local lower = stats.clustered_share(ones, groups)[2]
        assert.is_true(lower > 0.8 and lower < 0.85)
        local none, all = stats.clustered_difference(ones, ones, groups),
            stats.clustered_difference(zeros, ones, groups)
        assert.is_true(none[2] < -0.1 and none[3] > 0.1 and none[4] == 1)
        assert.is_true(all[2] == -1 and all[3] > -0.7 and all[4] > 1e-4 and all[4] < 1e-3)
        assert.same({ 0.5, -1, 1 }, stats.clustered_difference({ 1, 1 }, { 0, 1 }, { "a", "a" }))
        assert.same({ {}, {} }, { stats.clustered_share({}, {}),
            stats.clustered_difference({}, {}, {}) })
    end)

    it("exclude 0 exactly where p is below 5 %", function()
        local below = 0
        for seed = 1, 200 do
            local xs, groups = draw(20, 3, seed)
            local got = stats.clustered_difference(xs, draw(20, 3, seed + seed % 3 * 100), groups)
            assert.equal(got[2] > 0 or got[3] < 0, got[4] < 0.05)
            below = below + (got[4] < 0.05 and 1 or 0)
        end
        assert.is_true(below > 5 and below < 195)
    end)
end)

describe("ponder.stats refuses", function()
    for _, case in ipairs {
        { "wilson", { 3, 2 }, "k must be an integer from 0 to 2 (got 3)" },
        { "wilson", { 1, 2, 1 }, "conf must be a number above 0 and below 1 (got 1)" },
        { "newcombe_paired", { 1, 2, 3, 0.5 }, "d must be an integer >= 0 (got 0.5)" },
        { "newcombe_independent", { 1, 2, 3 }, "n2 must be an integer >= 0 (got nil)" },
        { "mcnemar_exact", { 1 }, "c must be an integer from 0 to 536870912 (got nil)" },
        { "quantile7", { { 1 }, 2 }, "p must be a finite number from 0 to 1 (got 2)" },
        { "quantile7", { { 1, 0 / 0 }, 1 }, "xs[2] must be a number (got nan)" },
        { "mean", { 3 }, "xs must be a list of numbers (got 3)" },
        { "mean", { { 1, math.huge } }, "xs[2] must be a finite number (got inf)" },
        { "se_cluster_cr1", { { 1, 2 }, { 1 } },
            "clusters must be a list with one item for each of xs, 2 (got 1)" },
        { "se_cluster_cr0", { { 1, 2 }, { 1, 0 / 0 } }, "clusters[2] must not be nan" },
        { "paired_clustered", { { 1 }, { 1, 2 }, { 1 } },
            "ys must have as many items as the list before it, 1 (got 2)" },
        { "bootstrap_mean", { { 1 }, 0, 1 }, "B must be an integer >= 1 (got 0)" },
        { "bootstrap_ratio", { { 1 }, { 1 }, 1, 0.5 }, "seed must be an integer (got 0.5)" },
        { "bootstrap_cluster", { { 1 }, { 1 }, 1, 1, 2 },
            "conf must be a number above 0 and below 1 (got 2)" },
        { "pass_at_k", { 3, 4, 1 }, "c must be an integer from 0 to 3 (got 4)" },
        { "majority_at_k", { { 1, 1.5 }, 1, 1 }, "counts[2] must be an integer >= 0 (got 1.5)" },
        { "majority_at_k", { { 1 }, 2, 1 }, "right must be an integer from 0 to 1 (got 2)" },
        { "splitmix64_below", { 1, 0, 1 }, "n must be an integer >= 1 (got 0)" },
        { "sample_size", { 1, 1, 1, 1, 1, 0, 0.05, 0.8 },
            "delta must not be 0" },
        { "sample_size", { 1, 1, 0, 1, 1, 1, 0.05, 0.8 },
            "k_a must be a finite number >= 1 (got 0)" },
        { "holm", { { 2 } }, "ps[1] must be a number from 0 to 1 (got 2)" },
    } do
        local name, arguments, complaint = table.unpack(case)
        it(("%s: %s"):format(name, complaint), function()
            local ok, message = pcall(function()
                local result = stats[name](table.unpack(arguments, 1, 8))
                return result
            end)
            assert.is_false(ok)
            local place, text = message:match "^(.-:%d+): stats%.(.*)$"
            assert.truthy(place and place:find("stats_spec.lua", 1, true), message)
            assert.equal(name .. ": " .. complaint, text)
        end)
    end
end)

describe("the statistics are calibrated", function()
    it("over simulated tables of 200 items", function()
        -- scripts/bench/stats.lua does this with 10,000 tables.
        local shares = calibration.run(1000, { n = 200, chance = 0.3, bootstraps = 200,
            replicates = 100 })
        for _, name in ipairs { "wilson", "newcombe", "bootstrap" } do
            assert.is_true(shares[name] >= 0.92 and shares[name] <= 0.98, name .. shares[name])
        end
        assert.is_true(shares.mcnemar_midp >= 0.03 and shares.mcnemar_midp <= 0.07)
        assert.is_true(shares.mcnemar_exact <= 0.05)
    end)
end)
