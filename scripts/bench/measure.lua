--- Measures two programs in turn, and the median ratio of their figures.
---
--- Machines are noisy and slow down as they get warm, so the two are measured in turn, in both
--- orders, and only ratios are compared with a target.

local measure = {}

---@param list number[]
---@return number
function measure.median(list)
    local sorted = table.move(list, 1, #list, 1, {})
    table.sort(sorted)
    local middle = (#sorted + 1) // 2
    return #sorted % 2 == 1 and sorted[middle] or (sorted[middle] + sorted[middle + 1]) / 2
end

---CPU seconds of `f(...)`, after a garbage collection.
---@param f function
---@return number seconds
function measure.cpu(f, ...)
    collectgarbage()
    collectgarbage()
    local start = os.clock()
    f(...)
    return os.clock() - start
end

---Measures pairs in turn: ours, theirs, theirs, ours, ...
---@param ours fun(): number any figure, such as measure.cpu's
---@param theirs fun(): number
---@param pairs? integer at least 5, the default
---@return number ratio median of ours / theirs over the pairs
---@return number ours median
---@return number theirs median
function measure.pairs(ours, theirs, pairs)
    local ratios, our_figures, their_figures = {}, {}, {}
    for i = 1, pairs or 5 do
        if i % 2 == 1 then
            our_figures[i], their_figures[i] = ours(), theirs()
        else
            their_figures[i], our_figures[i] = theirs(), ours()
        end
        ratios[i] = our_figures[i] / their_figures[i]
    end
    return measure.median(ratios), measure.median(our_figures), measure.median(their_figures)
end

---Prints a line of a table: name, figure, target, and whether the target is reached. `make bench`
---goes on after a missed one, and lists it at the end.
---@param what string
---@param figure number
---@param relation ">="|"<="
---@param target number
---@param unit? string
function measure.report(what, figure, relation, target, unit)
    local reached = relation == ">=" and figure >= target or relation == "<=" and figure <= target
    local line = ("  %-52s %10.4g %-12s %s %-8.4g %s"):format(what, figure, unit or "", relation,
        target, reached and "ok" or "MISSED")
    print(line)
    local bench = os.getenv "BENCH"
    if bench and not reached then
        local missed <close> = assert(io.open(os.getenv("PONDER_BUILD") .. "/missed", "a"))
        missed:write(bench, ":", (line:gsub("%s+", " ")), "\n")
    end
end

return measure
