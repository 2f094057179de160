-- An evaluation of 100,000 items with 5 policies and 3 epochs: the time and the memory that a run
-- takes, compared with an evaluation a tenth the size.

local RUNS_OF_ITEM = 5 * 3
local BYTES_OF_RUN, SLOWER = 300, 1.25

local EVAL = [[
local items, policies = {}, {}
for i = 1, io.open "items":read "n" do
    items[i] = { id = "i" .. i, question = "q" .. i, target = i % 7 }
end
for p = 1, 5 do
    policies["p" .. p] = function(item) return (item.target * p + #item.id) % 7 end
end
return { data = items, score = "exact", policies = policies }
]]

return { size = 100000, steps = {
    { "evaluate", function(s)
        s:write("eval.lua", EVAL)
        local kib, seconds, runs = {}, {}, {}
        for i, items in ipairs { s.size // 10, s.size } do
            s:write("items", ("%d\n"):format(items))
            local run = s:run { "eval", "--no-log", "--epochs", 3, "eval.lua" }
            runs[i] = items * RUNS_OF_ITEM
            kib[i], seconds[i] = run.peak_kib, run.cpu_s / runs[i]
        end
        s:report("memory of a run", (kib[2] - kib[1]) * 1024 / (runs[2] - runs[1]), "<=",
            BYTES_OF_RUN, "B")
        s:report_time("CPU of a run, compared with a tenth of the items", seconds[2] / seconds[1],
            "<=", SLOWER)
    end },
} }
