--- Fails if f takes more than 10 s of CPU. On the inputs of specs, linear work takes a few
--- hundredths of a second and quadratic work minutes, which leaves room for a slow machine under a
--- sanitizer.
---
---     linear(function() quote.utf8(("\xFF"):rep(1000000)) end)
---@param f function
---@param what? string for the message
return function(f, what)
    local began = os.clock()
    f()
    local took = os.clock() - began
    if took > 10 then
        error(("%s took %.1f s"):format(what or "this", took), 2)
    end
end
