"""Local copies of the server's collections, kept up to date by list and watch.

Mirrors client-go's tools/cache. Bytes of lists and watches become objects in `decoding`; a
`Reflector` keeps one list (`listing`) and watch alive and puts what it reads into an `Informer`,
which stores it and calls handlers. `informer` also has the factory that shares them; open it first.
`pace` lets the single thread breathe between changes and holds deliveries up where a cycle needs
a cluster that does not move.
"""
