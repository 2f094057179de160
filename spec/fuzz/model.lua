return function() return "a" end
